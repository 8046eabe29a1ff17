package nats

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	client "github.com/nats-io/nats.go"

	"github.com/wavehouse/wavehouse/internal/mq/nats/topology"
)

const (
	// pullFor is how long a request stays with the server. It is well below the
	// pin's time to live, which every request renews.
	pullFor = 4 * time.Second
	// pullBeat is how often the server says that it has the request.
	pullBeat = time.Second
	// pullSilence is when a request is lost.
	pullSilence = 3 * pullBeat
	// pullPause keeps a request that fails from being made again at once.
	pullPause = 250 * time.Millisecond
)

// pull keeps one request for chunks at the shard's durable, as long as there is
// room for them. The server pins the durable to whoever asks first, under an id
// that every later request names.
type pull struct {
	s *shard

	mu sync.Mutex
	// n numbers requests: what is said of a former one means nothing. left is
	// what the request may still bring, 0 when it is over.
	n    uint64
	left int
	// heard is when the server was heard of last; not is when to ask again
	// after a refusal.
	heard time.Time
	not   time.Time
	pin   string
}

// request is what the server is asked.
type request struct {
	Expires   time.Duration `json:"expires"`
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes"`
	Heartbeat time.Duration `json:"idle_heartbeat"`
	Group     string        `json:"group"`
	Pin       string        `json:"id,omitempty"`
}

// run asks until the shard stops, and then takes what is still on the way.
func (p *pull) run() {
	inbox := client.NewInbox() + "."
	sub, err := p.s.c.b.api.Subscribe(inbox+"*", func(m *client.Msg) { p.take(strings.TrimPrefix(m.Subject, inbox), m) })
	if err != nil {
		p.s.c.fail(fmt.Errorf("subscribe to deliveries of shard %s: %w", p.s.at, err))
		return
	}
	// What is on the way is bounded by the requests.
	_ = sub.SetPendingLimits(-1, -1)
	tick := time.NewTicker(pullPause)
	defer tick.Stop()
	for p.s.ctx.Err() == nil {
		p.ask(inbox)
		select {
		case <-p.s.more:
		case <-tick.C:
		case <-p.s.ctx.Done():
		}
	}
	p.drain(sub)
}

// drain has the server send nothing more, and takes what it sent.
func (p *pull) drain(sub *client.Subscription) {
	closed := make(chan struct{})
	sub.SetClosedHandler(func(string) { close(closed) })
	if sub.Drain() != nil {
		return
	}
	select {
	case <-closed:
	case <-time.After(ackTimeout): // the connection is away
		_ = sub.Unsubscribe()
	}
}

// ask sends a request unless there is one, or no room.
func (p *pull) ask(inbox string) {
	chunks, bytes := p.s.room()
	now := time.Now()
	p.mu.Lock()
	if chunks == 0 || (p.left > 0 && now.Sub(p.heard) < pullSilence) || now.Before(p.not) {
		p.mu.Unlock()
		return
	}
	p.n++
	p.left, p.heard = chunks, now
	body, err := json.Marshal(request{pullFor, chunks, bytes, pullBeat, topology.Group, p.pin})
	reply := inbox + strconv.FormatUint(p.n, 10)
	p.mu.Unlock()
	if err == nil {
		err = p.s.c.b.api.PublishRequest("$JS.API.CONSUMER.MSG.NEXT."+p.s.part.stream+"."+p.s.durable(), reply, body)
	}
	if err != nil {
		p.again(now.Add(pullPause)) // the connection is away
	}
}

// again ends the request; another is made from then on.
func (p *pull) again(from time.Time) {
	p.mu.Lock()
	p.left, p.not = 0, from
	p.mu.Unlock()
	poke(p.s.more)
}

// take is called for everything that comes: chunks, and what the server says of
// a request, whose token is its number.
func (p *pull) take(token string, m *client.Msg) {
	if strings.HasPrefix(m.Reply, "$JS.ACK.") {
		p.mu.Lock()
		p.heard = time.Now()
		p.left = max(p.left-1, 0)
		over := p.left == 0
		if pin := m.Header.Get("Nats-Pin-Id"); pin != "" {
			p.pin = pin
		}
		p.mu.Unlock()
		p.s.came(m)
		if over {
			poke(p.s.more)
		}
		return
	}
	p.mu.Lock()
	current := token == strconv.FormatUint(p.n, 10)
	if current {
		p.heard = time.Now()
	}
	p.mu.Unlock()
	if current {
		p.told(m.Header.Get("Status"), m.Header.Get("Description"))
	}
}

// told acts on what the server says of the request.
func (p *pull) told(status, description string) {
	now := time.Now()
	switch {
	case status == "100": // it is there
	case status == "423":
		// The pin is another's, or lapsed: without an id the next one is got.
		p.mu.Lock()
		p.pin = ""
		p.mu.Unlock()
		p.again(now)
	case status == "404", status == "408":
		p.again(now)
	case status == "409" && strings.Contains(strings.ToLower(description), "consumer deleted"):
		p.s.c.b.watch.gone(p.s.part, p.s.at.shard)
		p.again(now.Add(time.Second))
	case status == "409" && (strings.Contains(description, "Completed") || strings.Contains(description, "MaxBytes")):
		p.again(now)
	default:
		// A leader that is away or new, or a durable that is not there.
		p.s.c.b.log.Debug("request for chunks ended", "shard", p.s.at.String(), "status", status, "description", description)
		p.again(now.Add(pullPause))
	}
}
