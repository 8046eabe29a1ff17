package stream

import "github.com/wavehouse/wavehouse/internal/mq"

// EventID is the event id with which a stream of t starts behind the chunk at
// p: every row of a later chunk is sent, and none up to it.
func EventID(t mq.Topic, p mq.Position) string { return newIDCodec(t).encode(after(p)) }
