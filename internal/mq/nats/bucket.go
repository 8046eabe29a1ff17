package nats

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	client "github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq/jetstream"
)

func (b *Broker) bucketSubject(key string) string { return "$KV." + b.o.Names.Bucket + "." + key }

// readKey reads a key of the bucket, as it is or was a moment ago; its revision is 0
// when it was never set.
func (b *Broker) readKey(ctx context.Context, key string) (value []byte, revision uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, jetstream.APITimeout)
	defer cancel()
	subject := b.bucketSubject(key)
	ask, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return nil, 0, err
	}
	m, err := b.api.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+b.o.Names.BucketStream(), ask)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", subject, err)
	}
	switch m.Header.Get("Status") {
	case "404":
		return nil, 0, nil
	case "":
	default:
		return nil, 0, fmt.Errorf("read %s: %s %s", subject, m.Header.Get("Status"), m.Header.Get("Description"))
	}
	revision, err = strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: revision: %w", subject, err)
	}
	return m.Data, revision, nil
}

// writeKey writes a key of the bucket over a revision of it, and returns the new
// one. After an error it may be written.
func (b *Broker) writeKey(ctx context.Context, key string, value []byte, over uint64) (revision uint64, err error) {
	m := &client.Msg{Subject: b.bucketSubject(key), Data: value, Header: client.Header{}}
	m.Header.Set(client.ExpectedLastSubjSeqHdr, strconv.FormatUint(over, 10))
	e := jetstream.NewPending(b.o.Names.BucketStream(), nil)
	if err := b.pubs.Send(ctx, m, &e); err != nil {
		return 0, fmt.Errorf("write %s: %w", m.Subject, err)
	}
	o := e.Await(ctx, jetstream.APITimeout)
	if o.Err != nil {
		return 0, fmt.Errorf("write %s: %w", m.Subject, o.Err)
	}
	return o.Seq, nil
}
