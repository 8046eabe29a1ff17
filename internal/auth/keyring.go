package auth

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/wavehouse/wavehouse/internal/tenant"
)

// maxFetches is how many key sets are fetched at once in a process.
const maxFetches = 32

// maxLogged is how many tenants a log line names.
const maxLogged = 8

// Fetching says how key sets are fetched. Zero values are the defaults.
type Fetching struct {
	Timeout time.Duration // of one fetch; 10 s
	Refresh time.Duration // between fetches that succeed; 1 m
	// Refetch is the shortest time between the start of one fetch and of
	// another that an unknown key asks for; 5 s.
	Refetch time.Duration
	// Wait is how long a request waits for a fetch that its unknown key asked
	// for; 3 s.
	Wait time.Duration
	// RetryMin and RetryMax bound the pause after a fetch that failed; 1 s and
	// 30 s.
	RetryMin, RetryMax time.Duration
}

func (f Fetching) withDefaults() Fetching {
	return Fetching{
		Timeout: cmp.Or(f.Timeout, 10*time.Second), Refresh: cmp.Or(f.Refresh, time.Minute),
		Refetch: cmp.Or(f.Refetch, 5*time.Second), Wait: cmp.Or(f.Wait, 3*time.Second),
		RetryMin: cmp.Or(f.RetryMin, time.Second), RetryMax: cmp.Or(f.RetryMax, 30*time.Second),
	}
}

// keyring holds the key sets of all tenants and keeps them fresh.
type keyring struct {
	timing  Fetching
	client  *http.Client
	logger  *slog.Logger
	fetches *prometheus.CounterVec
	wake    chan struct{} // of one, so that a wake is never lost nor waited for

	mu         sync.RWMutex
	sets       map[string]*keySet // by URL
	running    int
	generation uint64
}

func newKeyring(timing Fetching, logger *slog.Logger, metrics prometheus.Registerer) *keyring {
	auto := promauto.With(metrics)
	k := &keyring{
		timing: timing.withDefaults(), logger: logger, wake: make(chan struct{}, 1), sets: map[string]*keySet{},
		fetches: auto.NewCounterVec(prometheus.CounterOpts{
			Name: "wavehouse_auth_jwks_fetches_total", Help: "Fetches of the keys that verify tokens, by result.",
		}, []string{"result"}),
	}
	k.client = newClient(k.timing.Timeout)
	auto.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "wavehouse_auth_jwks_pending", Help: "Key sets that have never been fetched: their tenants' tokens are answered 503.",
	}, k.countPending)
	return k
}

func (k *keyring) countPending() float64 {
	k.mu.RLock()
	defer k.mu.RUnlock()
	n := 0.0
	for _, set := range k.sets {
		if set.keys.Load() == nil {
			n++
		}
	}
	return n
}

// set returns the key set of the URL, nil when no tenant was given it.
func (k *keyring) set(url string) *keySet {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return k.sets[url]
}

// reconcile makes the key sets those of wanted, tenants by URL. A set that
// stays keeps its keys; one that failed last is tried again.
func (k *keyring) reconcile(wanted map[string][]tenant.ID, now time.Time) (added []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for url, set := range k.sets {
		if _, stays := wanted[url]; !stays {
			delete(k.sets, url)
			set.close()
		}
	}
	for url, tenants := range wanted {
		set := k.sets[url]
		switch {
		case set == nil:
			set = &keySet{url: url, due: now, ended: make(chan struct{})}
			k.sets[url] = set
			added = append(added, url)
		case set.failures > 0:
			set.due = earlier(set.due, later(now, set.started.Add(k.timing.Refetch)))
		}
		set.tenants = tenants
	}
	k.nudge()
	return added
}

// close ends what belongs to a set that nobody names any more.
func (s *keySet) close() {
	if s.cancel != nil {
		s.cancel()
		return // the fetch says itself that it has ended
	}
	close(s.ended)
}

func (k *keyring) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run fetches what is due until ctx ends, and returns when no fetch is left.
func (k *keyring) run(ctx context.Context) {
	var fetching sync.WaitGroup
	defer k.client.CloseIdleConnections()
	defer fetching.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-k.wake:
		}
		for _, start := range k.startDue(ctx, time.Now()) {
			fetching.Go(start)
		}
		timer.Reset(k.untilDue(time.Now()))
	}
}

// startDue returns the fetches that are due, no more than may run.
func (k *keyring) startDue(ctx context.Context, now time.Time) []func() {
	k.mu.Lock()
	defer k.mu.Unlock()
	var due []*keySet
	for _, set := range k.sets {
		if set.cancel == nil && !set.due.After(now) {
			due = append(due, set)
		}
	}
	slices.SortFunc(due, func(a, b *keySet) int { return a.due.Compare(b.due) })
	due = due[:min(len(due), maxFetches-k.running)]
	starts := make([]func(), 0, len(due))
	for _, set := range due {
		k.running++
		set.started = now
		var fetching context.Context
		fetching, set.cancel = context.WithTimeout(ctx, k.timing.Timeout)
		starts = append(starts, func() { k.refresh(fetching, set) })
	}
	return starts
}

// untilDue returns how long nothing has to be started. The end of a fetch and
// a request for one wake the loop earlier.
func (k *keyring) untilDue(now time.Time) time.Duration {
	k.mu.RLock()
	defer k.mu.RUnlock()
	wait := k.timing.Refresh
	for _, set := range k.sets {
		if set.cancel == nil && k.running < maxFetches {
			wait = min(wait, max(0, set.due.Sub(now)))
		}
	}
	return wait
}

// refresh fetches a set once. Whatever goes wrong leaves the keys it had.
func (k *keyring) refresh(ctx context.Context, set *keySet) {
	list, sum, refused, err := k.download(ctx, set)
	if errors.Is(ctx.Err(), context.Canceled) {
		err = context.Canceled // a stop, or nobody's set any more: not the key server's fault
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.nudge()
	k.running--
	set.cancel()
	set.cancel = nil
	if err != nil {
		k.failed(set, err)
	} else {
		k.succeeded(set, list, sum, refused)
	}
	close(set.ended) // now who waits finds what was fetched
	set.ended = make(chan struct{})
}

func (k *keyring) download(ctx context.Context, set *keySet) ([]publicKey, [sha256.Size]byte, []error, error) {
	data, err := fetch(ctx, k.client, set.url)
	if err != nil {
		return nil, [sha256.Size]byte{}, nil, err
	}
	list, refused, err := parseKeys(data)
	return list, sha256.Sum256(data), refused, err
}

func (k *keyring) failed(set *keySet, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	pause := min(k.timing.RetryMax, k.timing.RetryMin<<min(set.failures, 16))
	set.failures++
	set.due = time.Now().Add(spread(pause))
	k.fetches.WithLabelValues("failed").Inc()
	k.logger.Warn("cannot fetch the keys that verify tokens", "url", shown(set.url), "tenants", set.named(),
		"error", err, "keeps_older_keys", set.keys.Load() != nil, "failures", set.failures)
}

func (k *keyring) succeeded(set *keySet, list []publicKey, sum [sha256.Size]byte, refused []error) {
	set.failures = 0
	set.due = time.Now().Add(spread(k.timing.Refresh))
	k.fetches.WithLabelValues("ok").Inc()
	if had := set.keys.Load(); had != nil && had.sum == sum {
		return
	}
	k.generation++
	set.keys.Store(newKeys(k.generation, sum, list))
	k.logger.Info("fetched the keys that verify tokens", "url", shown(set.url), "tenants", set.named(), "keys", len(list))
	if len(refused) > 0 {
		k.logger.Warn("some of the keys are not used", "url", shown(set.url), "tenants", set.named(),
			"keys", len(refused), "reasons", errors.Join(refused...))
	}
}

// named returns the tenants that a log line names.
func (s *keySet) named() []tenant.ID { return s.tenants[:min(len(s.tenants), maxLogged)] }

// newer returns keys that are not seen, fetching them if that is allowed now;
// seen when there are none. It returns when the fetch has ended, after
// Fetching.Wait, or with ctx.
func (k *keyring) newer(ctx context.Context, set *keySet, seen *keys) *keys {
	ended, worthIt := k.request(set, seen, time.Now())
	if !worthIt {
		return set.keys.Load()
	}
	patience := time.NewTimer(k.timing.Wait)
	defer patience.Stop()
	select {
	case <-ended:
	case <-patience.C:
	case <-ctx.Done():
	}
	return set.keys.Load()
}

// request asks for a fetch as soon as one is allowed. It is worth waiting for
// when it starts now, or runs already.
func (k *keyring) request(set *keySet, seen *keys, now time.Time) (ended <-chan struct{}, worthIt bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if set.keys.Load() != seen || k.sets[set.url] != set {
		return nil, false
	}
	if set.cancel != nil {
		return set.ended, true
	}
	allowed := set.started.Add(k.timing.Refetch)
	set.due = earlier(set.due, later(now, allowed))
	k.nudge()
	return set.ended, !allowed.After(now)
}

// spread keeps many clients of one server from asking it together.
func spread(d time.Duration) time.Duration { return d - rand.N(d/5+1) }

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
