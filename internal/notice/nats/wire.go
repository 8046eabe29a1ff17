package nats

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/notice"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// message is one notice on its way, or without one a sign of life.
type message struct {
	// From tells the buses apart, and N counts the notices that this one told.
	From string `json:"from"`
	N    uint64 `json:"n"`
	// Bye says that nothing more comes.
	Bye       bool              `json:"bye,omitempty"`
	Written   *written          `json:"written,omitempty"`
	Statement *notice.Statement `json:"statement,omitempty"`
	Process   *notice.Process   `json:"process,omitempty"`
	Lost      bool              `json:"lost,omitempty"`
}

type written struct {
	Tenant   tenant.ID `json:"tenant"`
	Table    []byte    `json:"table"` // any bytes
	Inserted int       `json:"inserted,omitempty"`
	Parked   []parked  `json:"parked,omitempty"`
	Settled  []string  `json:"settled,omitempty"`
}

type parked struct {
	Chunk   string `json:"chunk"`
	Row     int    `json:"row"`
	Code    string `json:"code"`
	Message string `json:"message"`
}

// put sets a notice.
func (m *message) put(n notice.Notice) {
	switch n := n.(type) {
	case notice.Written:
		w := &written{Tenant: n.Tenant, Table: []byte(n.Table), Inserted: n.Inserted}
		for _, p := range n.Parked {
			w.Parked = append(w.Parked, parked{p.Chunk.String(), p.Row, p.Code, p.Message})
		}
		for _, at := range n.Settled {
			w.Settled = append(w.Settled, at.String())
		}
		m.Written = w
	case notice.Statement:
		m.Statement = &n
	case notice.Process:
		m.Process = &n
	default:
		m.Lost = true
	}
}

// notice is what the message tells, nil for a sign of life. What a newer version
// tells is lost on this one.
func (m *message) notice() notice.Notice {
	switch {
	case m.Written != nil:
		if n, err := m.Written.notice(); err == nil {
			return n
		}
		return notice.Lost{}
	case m.Statement != nil:
		return *m.Statement
	case m.Process != nil:
		return *m.Process
	case m.Lost:
		return notice.Lost{}
	}
	return nil
}

func (w *written) notice() (notice.Written, error) {
	n := notice.Written{Topic: mq.Topic{Tenant: w.Tenant, Table: string(w.Table)}, Inserted: w.Inserted}
	for _, p := range w.Parked {
		at, err := mq.ParsePosition(p.Chunk)
		if err != nil {
			return n, err
		}
		n.Parked = append(n.Parked, notice.ParkedRow{Chunk: at, Row: p.Row, Code: p.Code, Message: p.Message})
	}
	for _, text := range w.Settled {
		at, err := mq.ParsePosition(text)
		if err != nil {
			return n, err
		}
		n.Settled = append(n.Settled, at)
	}
	return n, nil
}

// question asks for the progress of a table.
type question struct {
	Tenant tenant.ID `json:"tenant"`
	Table  []byte    `json:"table"`
}

func (q question) topic() mq.Topic { return mq.Topic{Tenant: q.Tenant, Table: string(q.Table)} }

// answer is whose table it is.
type answer struct {
	Frontier string    `json:"frontier"`
	Since    time.Time `json:"since,omitzero"`
	Quiet    bool      `json:"quiet,omitempty"`
	Writes   uint64    `json:"writes"`
}

func encode(v any) []byte {
	data, _ := json.Marshal(v) // of these types never fails
	return data
}

func (a answer) progress() (notice.Progress, error) {
	at, err := mq.ParsePosition(a.Frontier)
	if err != nil {
		return notice.Progress{}, fmt.Errorf("frontier: %w", err)
	}
	return notice.Progress{Frontier: at, Since: a.Since, Quiet: a.Quiet, Writes: a.Writes}, nil
}
