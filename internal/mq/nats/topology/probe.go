package topology

import (
	"context"
	"crypto/rand"
	"errors"
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

// refusals finds what the server tells a user that he may not: it says so before it
// answers a ping. What is published carries a name that nobody has, so that nothing
// takes it.
func (w Wanted) refusals(ctx context.Context, js jetstream.JetStream, r *Report) error {
	nc, name := js.Conn(), nobody+"-"+rand.Text()
	try := func(where, what, prefix string, do func(subject string) error) error {
		subject := prefix + name
		if err := do(subject); err != nil {
			return fmt.Errorf("probe permissions: %w", err)
		}
		if err := nc.FlushTimeout(probeFor); err != nil {
			return fmt.Errorf("probe permissions: %w", err)
		}
		if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) && strings.Contains(last.Error(), strconv.Quote(subject)) {
			r.Findings = append(r.Findings, Finding{Where: where, Required: true,
				What: what + " is refused: the user lacks the permission for " + prefix + "> (wavehouse mq permissions prints all of them)"})
		}
		return nil
	}
	publish := func(subject string) error {
		return nc.PublishMsg(&nats.Msg{Subject: subject, Data: []byte("{"), Header: nats.Header{nats.ExpectedStreamHdr: {nobody}}})
	}
	subscribe := func(subject string) error {
		s, err := nc.SubscribeSync(subject)
		if err == nil {
			defer func() { _ = s.Unsubscribe() }() // one that is refused is no more
			err = nc.FlushTimeout(probeFor)
		}
		return err
	}
	type probe struct {
		where, what, prefix string
		do                  func(string) error
	}
	all := []probe{
		{"notices", "publishing them", w.Notices(), publish}, {"notices", "subscribing to them", w.Notices(), subscribe},
		{"advisories", "subscribing to them", "$JS.EVENT.ADVISORY.CONSUMER.DELETED.", subscribe},
		{"advisories", "subscribing to them", "$JS.EVENT.ADVISORY.STREAM.DELETED.", subscribe},
	}
	if w.Bucket != "" {
		all = append(all, probe{w.BucketStream(), "writing to it", "$KV." + w.Bucket + ".", publish})
	}
	for p := range w.Partitions {
		h := w.History(p)
		all = append(all,
			probe{w.Ingest(p), "acknowledging", "$JS.ACK." + w.Ingest(p) + "." + w.Shard(0) + ".", publish},
			probe{h, "making a reader of it", "$JS.API.CONSUMER.CREATE." + h + ".", publish},
			probe{h, "deleting a reader of it", "$JS.API.CONSUMER.DELETE." + h + ".", publish},
			probe{h, "pulling from it", "$JS.API.CONSUMER.MSG.NEXT." + h + ".", publish})
	}
	for _, p := range all {
		if ctx.Err() != nil {
			return fmt.Errorf("probe permissions: %w", ctx.Err())
		}
		if err := try(p.where, p.what, p.prefix, p.do); err != nil {
			return err
		}
	}
	return nil
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
