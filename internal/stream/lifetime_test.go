package stream

import (
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// A stream ends when it is old, and the one that follows goes on without a row
// missing or repeated.
func TestLifetimeEndsTheStream(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{MaxLifetime: 200 * time.Millisecond}, nil)
	s := r.open(testTable, "", "")
	var got []uint64
	// It may be old before a row is on its way.
	for ends, published := 0, uint64(0); ends == 0 || len(got) < 2; {
		if published == 0 || published == 1 && ends > 0 {
			published++
			b.publish(rowsChunk(testTable, published))
		}
		f, err := s.NextEvent()
		require.NoError(t, err)
		if f.IsRow() {
			got = append(got, number(t, f))
			continue
		}
		require.Equal(t, EndLifetime, f.EndReason())
		ends++
		s = r.open(testTable, s.LastID(), "")
	}
	assert.Equal(t, []uint64{1, 2}, got)
}

func TestLifetimesAreSpreadAndATokenComesFirst(t *testing.T) {
	hub := New(Options{Broker: newMemoryBroker(), MaxLifetime: time.Hour})
	seen := map[time.Duration]bool{}
	for range 100 {
		s := hub.newSubscriber(t.Context(), Subscription{})
		left, reason := s.lifetime()
		assert.Equal(t, EndLifetime, reason)
		assert.LessOrEqual(t, left, time.Hour)
		assert.GreaterOrEqual(t, left, 45*time.Minute)
		seen[left] = true
		s.cancel()
	}
	assert.Greater(t, len(seen), 90)
	s := hub.newSubscriber(t.Context(), Subscription{Expires: time.Now().Add(time.Minute)})
	defer s.cancel()
	left, reason := s.lifetime()
	assert.Equal(t, EndTokenExpired, reason)
	assert.LessOrEqual(t, left, time.Minute)
}

// The id of a position starts behind its chunk.
func TestEventIDStartsBehindItsChunk(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	topic := mq.Topic{Tenant: tenant.Default, Table: testTable}
	from := r.open(testTable, r.hub.EventID(topic, mq.Position{}), "")
	at := b.publish(rowsChunk(testTable, 1, 2))
	b.publish(rowsChunk(testTable, 3))
	assert.Equal(t, []uint64{3}, next(t, r.open(testTable, r.hub.EventID(topic, at), ""), 1))
	assert.Equal(t, sequence(1, 3), next(t, from, 3), "the beginning is in front of everything")
}

func TestTenantsWithStreams(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, func(s *Subscription, req *http.Request) {
		s.Tenant = tenant.ID(req.URL.Query().Get("tenant"))
	})
	assert.Empty(t, r.hub.Tenants())
	r.open(testTable, "", "&tenant=birch")
	r.open(testTable, "", "&tenant=cedar")
	r.open("other", "", "&tenant=cedar")
	assert.ElementsMatch(t, []tenant.ID{"birch", "cedar"}, r.hub.Tenants())
}

// A stream whose tenant is taken away while it opens is opened and told so, and
// keeps the position that its client has.
func TestTheTenantLeavesWhileAStreamOpens(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	for _, reason := range []string{EndTenantRemoved, EndTenantRejected} {
		r.refuse(&Over{Reason: reason, Err: errors.New("no such tenant")})
		s := r.open(testTable, "", "")
		require.Empty(t, s.LastID())
		f, err := s.NextEvent()
		require.NoError(t, err)
		require.Equal(t, reason, f.EndReason())
		_, err = s.NextEvent()
		require.Error(t, err, "it is over")
	}
}

// One that is open learns the same from its grant, should a row come before the
// hub tells it.
func TestTheTenantLeavesBeforeARow(t *testing.T) {
	b := newMemoryBroker()
	r := newRig(t, b, Options{}, nil)
	s := r.open(testTable, "", "")
	r.refuse(&Over{Reason: EndTenantRejected, Err: errors.New("rejected")})
	b.publish(rowsChunk(testTable, 1))
	f, err := s.NextEvent()
	require.NoError(t, err)
	require.Equal(t, EndTenantRejected, f.EndReason())
}
