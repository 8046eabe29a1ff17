package insert

import "github.com/wavehouse/wavehouse/internal/mq"

func (w *Worker) assigned(mq.Shard) {}

func (w *Worker) revoked(mq.Shard) {}
