package topology

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// probeFor is how long an answer may take. A server does not answer what a user may
// not ask.
const probeFor = 3 * time.Second

// nobody names a stream and a group that there are not: a server refuses what names
// them, and so does nothing else.
const nobody = "wavehouse-probe"

// probe asks for something that is refused, so that it changes nothing: an answer,
// whatever it says, shows that one may ask.
type probe struct {
	subject, where, what string
	expect               string // of a publish: the stream
	body                 string
}

// probes lists what is asked of a partition that is there.
func (w Wanted) probes(p int, state PartitionState) []probe {
	if state.Created.IsZero() {
		return nil
	}
	var all []probe
	for s, covered := range state.Covered {
		if !covered {
			continue
		}
		at := w.Ingest(p) + "." + w.Shard(s)
		where := w.Ingest(p) + " " + w.Shard(s)
		all = append(all,
			probe{subject: w.ShardPrefix(p, s) + nobody, where: where, what: "publishing to it", expect: nobody},
			probe{subject: "$JS.API.CONSUMER.MSG.NEXT." + at, where: where, what: "pulling from it", body: `{"batch":1,"no_wait":true,"group":"` + nobody + `"}`},
			probe{subject: "$JS.API.CONSUMER.UNPIN." + at, where: where, what: "unpinning it", body: `{"group":"` + nobody + `"}`})
	}
	return all
}

// ask makes the probes, all at once.
func (w Wanted) ask(ctx context.Context, js jetstream.JetStream, r *Report, letters bool) error {
	var all []probe
	for p, state := range r.Partitions {
		all = append(all, w.probes(p, state)...)
	}
	if letters {
		all = append(all, probe{subject: w.LettersPrefix() + nobody, where: w.DeadLetters(), what: "publishing to it", expect: nobody})
	}
	nc, inbox := js.Conn(), nats.NewInbox()+"."
	answers := make(chan int, len(all))
	sub, err := nc.Subscribe(inbox+"*", func(m *nats.Msg) {
		if n, err := strconv.Atoi(strings.TrimPrefix(m.Subject, inbox)); err == nil && n >= 0 && n < len(all) {
			select {
			case answers <- n:
			default: // a second answer
			}
		}
	})
	if err != nil {
		return fmt.Errorf("probe permissions: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // ends with the connection at the latest
	for n, p := range all {
		m := &nats.Msg{Subject: p.subject, Reply: inbox + strconv.Itoa(n), Data: []byte(p.body), Header: nats.Header{}}
		if p.expect != "" {
			m.Header.Set(nats.ExpectedStreamHdr, p.expect)
		}
		if err := nc.PublishMsg(m); err != nil {
			return fmt.Errorf("probe permissions: %w", err)
		}
	}
	return w.await(ctx, r, all, answers)
}

func (w Wanted) await(ctx context.Context, r *Report, all []probe, answers <-chan int) error {
	answered := make([]bool, len(all))
	late := time.NewTimer(probeFor)
	defer late.Stop()
	for left, over := len(all), false; left > 0 && !over; {
		select {
		case n := <-answers:
			if !answered[n] {
				answered[n] = true
				left--
			}
		case <-late.C:
			over = true
		case <-ctx.Done():
			return fmt.Errorf("probe permissions: %w", ctx.Err())
		}
	}
	for n, p := range all {
		if !answered[n] {
			r.Findings = append(r.Findings, Finding{Where: p.where, Required: true, Transient: true,
				What: p.what + " is not answered: the user may lack the permission for " + p.subject + " (wavehouse mq permissions prints all of them)"})
		}
	}
	return nil
}
