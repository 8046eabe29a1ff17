package dynamo

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/dedupe"
	"github.com/wavehouse/wavehouse/internal/dedupe/dynamotest"
)

func TestTablesThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		add  func(f *dynamotest.Fake)
		want string
	}{
		"missing":      {func(*dynamotest.Fake) {}, `there is no table "ids"`},
		"another key":  {func(f *dynamotest.Fake) { f.AddTable("ids", "id", "S", "ex") }, "its key must be pk alone"},
		"not a string": {func(f *dynamotest.Fake) { f.AddTable("ids", "pk", "B", "ex") }, "its key pk must be a string (S), not B"},
		"a sort key": {func(f *dynamotest.Fake) {
			f.AddTable("ids", "pk", "S", "ex")
			f.Define("ids", "KeySchema", []map[string]string{{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}})
		}, "its key must be pk alone"},
		"not there yet": {func(f *dynamotest.Fake) {
			f.AddTable("ids", "pk", "S", "ex")
			f.Define("ids", "TableStatus", "CREATING")
		}, "it is CREATING"},
	} {
		t.Run(name, func(t *testing.T) {
			f := dynamotest.NewFake(t)
			c.add(f)
			s := start(t, Options{Endpoint: f.URL, recheck: time.Millisecond})
			err := s.Want(t.Context(), true)
			require.ErrorIs(t, err, dedupe.ErrUnavailable)
			require.ErrorContains(t, err, c.want)
			_, err = s.Reserve(t.Context(), pages, anna, []string{"a"})
			require.ErrorContains(t, err, c.want, "it fails closed")
			require.NotContains(t, f.Counts(), "CreateTable")

			// It is looked at until it is right, by itself.
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error)
			go func() { ended <- s.Run(ctx) }()
			f.AddTable("ids", "pk", "S", "ex")
			require.Eventually(t, s.table.Right, time.Minute, time.Millisecond)
			cancel()
			require.NoError(t, <-ended)
			require.NoError(t, s.Want(t.Context(), true))
		})
	}
}

func TestTablesThatAreNotAsTheyShouldBe(t *testing.T) {
	for want, change := range map[string]func(f *dynamotest.Fake){
		"TTL is off: switch it on for the attribute ex":      func(f *dynamotest.Fake) { f.AddTable("ids", "pk", "S", "") },
		"TTL is on for the attribute expires: it must be ex": func(f *dynamotest.Fake) { f.AddTable("ids", "pk", "S", "expires") },
		"replicated to other regions eventually": func(f *dynamotest.Fake) {
			f.Define("ids", "Replicas", []map[string]string{{"RegionName": "eu-test-2"}})
		},
	} {
		f := dynamotest.NewFake(t)
		f.AddTable("ids", "pk", "S", "ex")
		change(f)
		var log bytes.Buffer
		s := start(t, Options{Endpoint: f.URL, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for range 3 {
			require.NoError(t, s.Want(t.Context(), true))
		}
		assert.True(t, s.table.Usable())
		assert.False(t, s.table.Right())
		assert.Contains(t, log.String(), want)
		assert.Equal(t, 1, strings.Count(log.String(), want), "it is said once")
		reserve(t, s, anna, "a")
	}
}

// A table that was right stays so when nobody can be asked.
func TestALookWithoutAnAnswerChangesNothing(t *testing.T) {
	s, f := onFake(t, Options{})
	f.Fail(only("DescribeTable", dynamotest.Fault{Code: "AccessDeniedException"}))
	require.ErrorContains(t, s.Want(t.Context(), true), "AccessDeniedException", "it was never seen")
	f.Fail(nil)
	require.NoError(t, s.Want(t.Context(), true))
	f.Fail(only("DescribeTable", dynamotest.Fault{Code: "AccessDeniedException"}))
	require.NoError(t, s.Want(t.Context(), true))
	require.True(t, s.table.Right())
}

func TestATableIsMadeForDevelopment(t *testing.T) {
	f := dynamotest.NewFake(t)
	o := Options{Endpoint: f.URL, CreateTable: true}
	require.NoError(t, start(t, o).Want(t.Context(), true))
	f.Fail(only("UpdateTimeToLive", dynamotest.Fault{Code: "UnknownOperationException"}))
	o.Table = "without-ttl"
	require.NoError(t, start(t, o).Want(t.Context(), true))
	f.Fail(only("CreateTable", dynamotest.Fault{Code: "AccessDeniedException"}))
	o.Table = "denied"
	require.ErrorContains(t, start(t, o).Want(t.Context(), true), "create it")
	// Two processes at once.
	o.Table = "both"
	f.Fail(func(operation string, n int) dynamotest.Fault {
		if operation == "CreateTable" {
			f2 := dynamotest.Fault{Code: "ResourceInUseException"}
			return f2
		}
		return dynamotest.Fault{}
	})
	go func() {
		time.Sleep(50 * time.Millisecond)
		f.AddTable("both", "pk", "S", "ex")
	}()
	require.NoError(t, start(t, o).Want(t.Context(), true))
}

func TestWithoutARegion(t *testing.T) {
	for _, name := range []string{"AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_CONFIG_FILE", "/dev/null")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", "/dev/null")
	_, err := New(t.Context(), Options{Table: "ids", Lease: time.Second})
	require.ErrorIs(t, err, ErrNoRegion)
	t.Setenv("AWS_REGION", "eu-test-1")
	_, err = New(t.Context(), Options{Table: "ids", Lease: time.Second})
	require.NoError(t, err)
}
