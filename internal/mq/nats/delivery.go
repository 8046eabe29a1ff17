package nats

import (
	"encoding/json"
	"fmt"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// delivery is one chunk that came from a shard.
type delivery struct {
	shard *shard
	chunk mq.Chunk
	pos   mq.Position
	seq   uint64
	// reply is where the server hears what becomes of it.
	reply string
	size  int
	// ended says that it was handed back or acknowledged, stored that it was
	// acknowledged; both are guarded by the shard's mu.
	ended, stored bool
}

// Answers to the server.
const (
	ackBody      = "+ACK"
	nakBody      = "-NAK"
	progressBody = "+WPI"
)

func (d *delivery) Chunk() mq.Chunk       { return d.chunk }
func (d *delivery) Position() mq.Position { return d.pos }
func (d *delivery) Shard() mq.Shard       { return d.shard.name() }

// Nak implements mq.Delivery. A delivery that ended before is left alone.
func (d *delivery) Nak(delay time.Duration) error {
	if err := d.shard.holds(); err != nil {
		return fmt.Errorf("hand back delivery %s: %w", d.pos, err)
	}
	if !d.shard.finish(d) {
		return nil
	}
	// Where it does not arrive the server's ack wait does the same.
	if err := d.tell(nak(delay)); err != nil {
		d.shard.c.b.log.Debug("delivery is handed back by its ack wait", "position", d.pos.String(), "error", err)
	}
	return nil
}

func nak(delay time.Duration) []byte {
	if delay <= 0 {
		return []byte(nakBody)
	}
	body, err := json.Marshal(struct {
		Delay time.Duration `json:"delay"`
	}{delay})
	if err != nil {
		return []byte(nakBody)
	}
	return append([]byte(nakBody+" "), body...)
}

// Extend implements mq.Delivery. It fails when the delivery is over.
func (d *delivery) Extend() error {
	if err := d.shard.holds(); err != nil {
		return fmt.Errorf("extend delivery %s: %w", d.pos, err)
	}
	if d.shard.over(d) {
		return fmt.Errorf("extend delivery %s: it is over", d.pos)
	}
	if err := d.tell([]byte(progressBody)); err != nil {
		return fmt.Errorf("extend delivery %s: %w", d.pos, err)
	}
	return nil
}

func (d *delivery) tell(body []byte) error {
	return d.shard.c.b.api.PublishMsg(&client.Msg{Subject: d.reply, Data: body})
}
