package dynamo

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/clocktest"
	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/dedupetest"
	"github.com/wavehouse/wavehouse/internal/dedupe/dynamotest"
)

func key() aws.CredentialsProvider {
	return aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
		return aws.Credentials{AccessKeyID: dynamotest.KeyID, SecretAccessKey: dynamotest.Secret}, nil
	})
}

func start(t *testing.T, o Options) *Store {
	t.Helper()
	if o.Table == "" {
		o.Table = "ids"
	}
	if o.Lease == 0 {
		o.Lease = 30 * time.Second
	}
	if o.attempt == 0 {
		o.attempt = time.Minute
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second // below the lease, so that batches are used
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Region, o.credentials = dynamotest.Region, key()
	s, err := New(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, s.Close(context.Background())) })
	return s
}

func conformance(t *testing.T, endpoint func(t *testing.T) string) {
	n := 0
	skipped := dedupetest.Run(t, func(t *testing.T) *dedupetest.Subject {
		n++
		c := clocktest.At(time.UnixMilli(1_700_000_000_000))
		o := Options{
			Endpoint: endpoint(t), Table: fmt.Sprint("ids-", n), CreateTable: true, Now: c.Now,
			// Time for all that a case asks for at once, of a server that is slow.
			Lease: 10 * time.Minute, Timeout: 5 * time.Minute,
		}
		s := start(t, o)
		return &dedupetest.Subject{
			Store: s, Lease: s.o.Lease, Margin: margin, Tick: time.Second, Advance: c.Pass,
			Reopen: func() dedupe.Store { return start(t, o) },
		}
	}, dedupetest.MovesClock, dedupetest.Reopens)
	require.Zero(t, skipped)
}

func TestConformanceOnDynalite(t *testing.T) {
	d := dynamotest.StartDynalite(t)
	conformance(t, func(*testing.T) string { return d.URL })
}

func TestConformanceOnTheFake(t *testing.T) {
	conformance(t, func(t *testing.T) string { return dynamotest.NewFake(t).URL })
}

// Faults that a request is repeated for, at any request: nothing changes about what
// the contract says, above all an answer that is lost on the way.
func TestConformanceWhileAnswersAreLost(t *testing.T) {
	faults := []dynamotest.Fault{
		{Lose: true}, {Tear: true}, {Code: "InternalServerError", Status: 500}, {Code: "ProvisionedThroughputExceededException"},
	}
	conformance(t, func(t *testing.T) string {
		f := dynamotest.NewFake(t)
		f.Fail(func(operation string, n int) dynamotest.Fault {
			// So seldom that no request meets one at each of its attempts.
			if n%97 == 2 {
				return faults[n%len(faults)]
			}
			return dynamotest.Fault{}
		})
		return f.URL
	})
}

var (
	pages = dedupe.Scope{Tenant: "birch", Table: "pages"}
	anna  = dedupe.Owner{1}
	boris = dedupe.Owner{2}
)

// onFake is a store on a Fake with a table that is right.
func onFake(t *testing.T, o Options) (*Store, *dynamotest.Fake) {
	f := dynamotest.NewFake(t)
	f.AddTable("ids", attrKey, "S", attrEnd)
	o.Endpoint = f.URL
	return start(t, o), f
}

func only(operation string, fault dynamotest.Fault) func(string, int) dynamotest.Fault {
	return func(o string, _ int) dynamotest.Fault {
		if o == operation {
			return fault
		}
		return dynamotest.Fault{}
	}
}

func numbered(n int) []string {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprint("id-", i)
	}
	return ids
}

func entries(ids []string) []dedupe.Entry {
	all := make([]dedupe.Entry, len(ids))
	for i, id := range ids {
		all[i].ID = id
	}
	return all
}

func reserve(t *testing.T, s *Store, o dedupe.Owner, ids ...string) []dedupe.Reservation {
	t.Helper()
	all, err := s.Reserve(t.Context(), pages, o, ids)
	require.NoError(t, err)
	return all
}

// A window is a conditional put per id; its commit is a batch of 25 while the
// lease lasts; waiting costs reads and no write.
func TestWhatAWindowCosts(t *testing.T) {
	s, f := onFake(t, Options{})
	require.NoError(t, s.Want(t.Context(), true))
	f.Fail(nil)
	ids := numbered(100)
	reserve(t, s, anna, ids...)
	lost, err := s.Commit(t.Context(), pages, anna, entries(ids), time.Hour)
	require.NoError(t, err)
	require.Zero(t, lost)
	require.Equal(t, map[string]int{"PutItem": 100, "BatchWriteItem": 4}, f.Counts())

	f.Fail(nil)
	reserve(t, s, anna, "x")
	reserve(t, s, boris, "x")
	for range 8 {
		require.Equal(t, dedupe.Reservation{State: dedupe.InFlight, RetryAfter: askAgain}, reserve(t, s, boris, "x")[0])
	}
	require.Equal(t, map[string]int{"PutItem": 2, "GetItem": 8}, f.Counts(), "two claims; who waits reads")
	_, err = s.Commit(t.Context(), pages, anna, entries([]string{"x"}), 0)
	require.NoError(t, err)
	require.Equal(t, dedupe.Duplicate, reserve(t, s, boris, "x")[0].State)
	require.Equal(t, map[string]int{"PutItem": 2, "GetItem": 9, "BatchWriteItem": 1}, f.Counts())
	require.NoError(t, s.Release(t.Context(), pages, anna, []string{"x"}))

	reserve(t, s, anna, "y")
	reserve(t, s, boris, "y")
	require.NoError(t, s.Release(t.Context(), pages, anna, []string{"y"}))
	require.Equal(t, dedupe.New, reserve(t, s, boris, "y")[0].State, "given up, and had by who waited")
}

// A claim whose every answer is lost, and a window that fails half way.
func TestAFailedWindowGivesUpWhatItHad(t *testing.T) {
	s, f := onFake(t, Options{})
	require.NoError(t, s.Want(t.Context(), true))
	f.Fail(func(operation string, n int) dynamotest.Fault {
		if operation == "PutItem" && n > 40 {
			return dynamotest.Fault{Code: "ThrottlingException"}
		}
		return dynamotest.Fault{}
	})
	ids := numbered(100)
	_, err := s.Reserve(t.Context(), pages, anna, ids)
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	require.ErrorContains(t, err, "ThrottlingException")
	require.LessOrEqual(t, f.Counts()["PutItem"], 40+64*maxAttempts, "bounded")
	f.Fail(nil)
	for i, r := range reserve(t, s, boris, ids...) {
		require.Equal(t, dedupe.New, r.State, ids[i])
	}
}

// DynamoDB throttles for a while, then takes writes and loses the answers: no id is
// had without a claim, none is a duplicate for ever, and each is had once after.
func TestThrottledThenAnswersLost(t *testing.T) {
	c := clocktest.At(time.Now())
	s, f := onFake(t, Options{Now: c.Now})
	require.NoError(t, s.Want(t.Context(), true))
	ids := numbered(100)
	f.Fail(only("PutItem", dynamotest.Fault{Code: "ProvisionedThroughputExceededException"}))
	_, err := s.Reserve(t.Context(), pages, anna, ids)
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	f.Fail(only("PutItem", dynamotest.Fault{Lose: true}))
	_, err = s.Reserve(t.Context(), pages, anna, ids)
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	require.NotEmpty(t, f.Items("ids"), "they were stored")
	f.Fail(nil)
	_, err = s.Reserve(t.Context(), pages, boris, ids)
	require.NoError(t, err)
	c.Pass(s.o.Lease + margin + time.Second)
	states := map[dedupe.State]int{}
	for _, r := range reserve(t, s, dedupe.Owner{3}, ids...) {
		states[r.State]++
	}
	require.Equal(t, map[dedupe.State]int{dedupe.New: 100}, states)
}

func TestAStoreThatFailsIsLeftAlone(t *testing.T) {
	s, f := onFake(t, Options{})
	require.NoError(t, s.Want(t.Context(), true))
	f.Fail(only("PutItem", dynamotest.Fault{Code: "AccessDeniedException"}))
	for range 5 {
		_, err := s.Reserve(t.Context(), pages, anna, []string{"a"})
		require.ErrorIs(t, err, dedupe.ErrUnavailable)
	}
	before := f.Counts()["PutItem"]
	_, err := s.Reserve(t.Context(), pages, anna, []string{"a"})
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	require.ErrorContains(t, err, "AccessDeniedException")
	require.Equal(t, before, f.Counts()["PutItem"])
	f.Fail(nil)
	require.Eventually(t, func() bool {
		_, err := s.Reserve(t.Context(), pages, anna, []string{"a"})
		return err == nil
	}, time.Minute, 10*time.Millisecond)
}

func TestAHangingStoreIsGivenUp(t *testing.T) {
	reg := prometheus.NewRegistry()
	s, f := onFake(t, Options{attempt: 500 * time.Millisecond, Timeout: 5 * time.Second, Metrics: reg})
	require.NoError(t, s.Want(t.Context(), true))
	f.Fail(only("PutItem", dynamotest.Fault{Hang: true}))
	_, err := s.Reserve(t.Context(), pages, anna, []string{"a"})
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	require.Positive(t, counter(t, reg, "wavehouse_dedupe_dynamodb_requests_total", "timeout"))
}

func counter(t *testing.T, reg *prometheus.Registry, name, label string) (sum float64) {
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetValue() == label {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

func TestUnprocessedItemsAreSentAgain(t *testing.T) {
	reg := prometheus.NewRegistry()
	s, f := onFake(t, Options{Metrics: reg})
	ids := numbered(60)
	reserve(t, s, anna, ids...)
	f.Fail(func(operation string, n int) dynamotest.Fault {
		if operation == "BatchWriteItem" && n <= 5 {
			return dynamotest.Fault{Unprocessed: 7}
		}
		return dynamotest.Fault{}
	})
	_, err := s.Commit(t.Context(), pages, anna, entries(ids), 0)
	require.NoError(t, err)
	for _, r := range reserve(t, s, boris, ids...) {
		require.Equal(t, dedupe.Duplicate, r.State)
	}
	require.Equal(t, 35.0, counter(t, reg, "wavehouse_dedupe_dynamodb_retries_total", "unprocessed"))

	short := start(t, Options{Endpoint: f.URL, Timeout: 2 * time.Second})
	reserve(t, short, anna, "never")
	f.Fail(only("BatchWriteItem", dynamotest.Fault{Unprocessed: 25}))
	_, err = short.Commit(t.Context(), pages, anna, entries([]string{"never"}), 0)
	require.ErrorIs(t, err, dedupe.ErrUnavailable)
	require.ErrorContains(t, err, "1 items of a batch were not processed")
}

// A commit that comes late is not made blindly: another may have the id by then.
func TestALateCommitIsConditional(t *testing.T) {
	c := clocktest.At(time.Now())
	s, f := onFake(t, Options{Now: c.Now})
	reserve(t, s, anna, "a")
	c.Pass(s.o.Lease - s.o.Timeout)
	f.Fail(nil)
	lost, err := s.Commit(t.Context(), pages, anna, entries([]string{"a"}), 0)
	require.NoError(t, err)
	require.Zero(t, lost)
	require.Equal(t, map[string]int{"PutItem": 1}, f.Counts())

	// Its first answer is lost: it is not another's for that.
	reserve(t, s, anna, "b")
	c.Pass(s.o.Lease)
	f.Fail(func(operation string, n int) dynamotest.Fault { return dynamotest.Fault{Lose: n == 1} })
	lost, err = s.Commit(t.Context(), pages, anna, entries([]string{"b"}), 0)
	require.NoError(t, err)
	require.Zero(t, lost)
}

// A process whose clock is hours off neither takes what others hold nor is robbed.
func TestClocksThatAreWrong(t *testing.T) {
	f := dynamotest.NewFake(t)
	f.AddTable("ids", attrKey, "S", attrEnd)
	right := start(t, Options{Endpoint: f.URL})
	for name, off := range map[string]time.Duration{"ahead": 3 * time.Hour, "behind": -3 * time.Hour} {
		wrong := start(t, Options{Endpoint: f.URL})
		wrong.clock.own = func() time.Time { return time.Now().Add(off) }
		require.NoError(t, wrong.Want(t.Context(), true), name)
		require.InDelta(t, time.Now().Unix(), wrong.clock.now().Unix(), 60, name)
		reserve(t, right, anna, name)
		require.Equal(t, dedupe.InFlight, reserve(t, wrong, boris, name)[0].State, name)
		reserve(t, wrong, anna, name+" other way")
		require.Equal(t, dedupe.InFlight, reserve(t, right, boris, name+" other way")[0].State, name)
	}
	f.Skew(time.Hour)
	require.NoError(t, right.Want(t.Context(), true))
	require.InDelta(t, time.Now().Add(time.Hour).Unix(), right.clock.now().Unix(), 60, "DynamoDB's is the one")
}

// TTL removes what is over when it likes, which changes nothing.
func TestWhatIsOverIsAbsentWhetherOrNotItIsRemoved(t *testing.T) {
	c := clocktest.At(time.Now())
	reg := prometheus.NewRegistry()
	s, f := onFake(t, Options{Now: c.Now, Metrics: reg})
	reserve(t, s, anna, "lapsed", "kept")
	_, err := s.Commit(t.Context(), pages, anna, entries([]string{"kept"}), time.Hour)
	require.NoError(t, err)
	c.Pass(2 * time.Hour)
	require.Len(t, f.Items("ids"), 2, "nothing has removed them")
	for _, r := range reserve(t, s, boris, "lapsed", "kept") {
		require.Equal(t, dedupe.New, r.State)
	}
	families, err := reg.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() == "wavehouse_dedupe_lapsed_claims_total" {
			require.Equal(t, 1.0, f.GetMetric()[0].GetCounter().GetValue())
		}
	}
}
