package redis_test

import (
	"context"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/cachetest"
	"github.com/wavehouse/wavehouse/internal/cache/redis"
	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
)

// rules are the commands of the manual that make a user, by the user's name.
func rules(t *testing.T) map[string][]string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/redis.md")
	require.NoError(t, err)
	all := map[string][]string{}
	for _, m := range regexp.MustCompile(`(?m)^ACL SETUSER (\S+) .*$`).FindAllStringSubmatch(string(page), -1) {
		all[m[1]] = strings.Fields(strings.ReplaceAll(m[0], "<password>", "of-the-test"))
	}
	require.Len(t, all, 3, "users for a server, a cluster and the sentinels")
	return all
}

func allow(t *testing.T, s *redistest.Server, rule []string) {
	t.Helper()
	command := make([]any, len(rule))
	for i, word := range rule {
		command[i] = word
	}
	s.Do(t, command...)
}

// used holds the rule to what was called: nothing is allowed that is not used, and
// nothing was refused.
func used(t *testing.T, rule []string, servers ...*redistest.Server) {
	t.Helper()
	assert.Empty(t, unused(t, rule, servers...), "the rule allows what nothing uses")
	for _, s := range servers {
		refused(t, s)
	}
}

// unused are the commands of the rule that no server was asked.
func unused(t *testing.T, rule []string, servers ...*redistest.Server) []string {
	t.Helper()
	stats := ""
	for _, s := range servers {
		text, err := s.Client().Info(context.Background(), "commandstats").Result()
		require.NoError(t, err)
		stats += text
	}
	var never []string
	for _, word := range rule {
		if command, ok := strings.CutPrefix(word, "+"); ok && !strings.Contains(stats, "cmdstat_"+command+":") {
			never = append(never, command)
		}
	}
	return never
}

func refused(t *testing.T, s *redistest.Server) {
	t.Helper()
	log, err := s.Client().Do(context.Background(), "ACL", "LOG").Slice()
	require.NoError(t, err)
	assert.Empty(t, log, "what the user was refused")
}

// The suite passes for a user with exactly the rule of the manual.
func TestTheManualsRuleIsEnoughAndNoMore(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		t.Run("standalone", func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, flavor, "--save", "")
			rule := rules(t)["wavehouse"]
			allow(t, s, rule)
			o := quick()
			o.Addresses, o.Username, o.Password, o.DB = []string{s.Addr()}, "wavehouse", "of-the-test", 3
			flush := func(t *testing.T) { s.Do(t, "FLUSHALL") }
			conform(t, o, flush, cachetest.Capabilities{})
			flush(t)
			togetherUntilUsed(t, o, rule, s)
		})
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			six := redistest.StartSix(t, flavor)
			six.Steady(t)
			rule := rules(t)["wavehouse-cluster"]
			for _, n := range six.Nodes {
				allow(t, n, rule)
			}
			o := quick()
			o.Mode, o.Addresses, o.Username, o.Password = redis.Cluster, six.Addrs(), "wavehouse-cluster", "of-the-test"
			togetherUntilUsed(t, o, rule, six.Nodes[:]...)
		})
		t.Run("sentinel", func(t *testing.T) {
			t.Parallel()
			trio := redistest.StartTrio(t, flavor)
			trio.Steady(t)
			rule := rules(t)["wavehouse-sentinel"]
			for _, s := range trio.Sentinels {
				allow(t, s, rule)
			}
			for _, s := range trio.Servers {
				allow(t, s, rules(t)["wavehouse"])
			}
			o := quick()
			o.Mode, o.Addresses, o.Master = redis.Sentinel, trio.Addrs(), redistest.MasterName
			o.Username, o.Password, o.SentinelUsername, o.SentinelPassword = "wavehouse", "of-the-test", "wavehouse-sentinel", "of-the-test"
			together(t, o)
			for _, s := range trio.Sentinels { // which do not tell what was called
				refused(t, s)
			}
			used(t, nil, trio.Servers[:]...)
		})
	})
}

// togetherUntilUsed has processes use a user of the rule, and holds the rule to it.
// Whether two ask at the same moment, so that one finds the other's lock, is up to
// chance.
func togetherUntilUsed(t *testing.T, o redis.Options, rule []string, servers ...*redistest.Server) {
	t.Helper()
	for range 5 {
		if together(t, o); len(unused(t, rule, servers...)) == 0 {
			break
		}
	}
	used(t, rule, servers...)
}

// together has two processes use all there is: a cold question, its lock, answers,
// writes, and one that goes silent and is given up.
func together(t *testing.T, o redis.Options) {
	t.Helper()
	o.Timing = redis.Timing{Lease: time.Second, Lock: 300 * time.Millisecond}
	o.Absence = 700 * time.Millisecond
	s := seek(t, "", two(o)...)
	s.awaitHits("with the rule of the manual")
	cold := cache.NewKey("cold").Key()
	var done func()
	require.Eventually(t, func() (leads bool) {
		_, ticket, end := s.caches[0].Lead(t.Context(), cold)
		done = end
		return ticket.Store.Life != ""
	}, time.Minute, time.Millisecond)
	waits, stop := context.WithCancel(t.Context())
	var other sync.WaitGroup
	other.Go(func() { // the other finds it held, and looks whether it still is
		for waits.Err() == nil {
			_, _, end := s.caches[1].Lead(waits, cold)
			end()
		}
	})
	time.Sleep(time.Second) // the lock is renewed
	stop()
	other.Wait()
	done()
	o.Member = "crashed"
	crashed, err := redis.New(o)
	require.NoError(t, err)
	t.Cleanup(func() { _ = crashed.Close(context.Background()) })
	require.Eventually(t, func() bool {
		crashed.Lookup(t.Context(), cold) // again, should it have been given up before anybody looked
		for end := time.Now().Add(3 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			if s.caches[0].Status() != nil || s.caches[1].Status() != nil {
				return true
			}
		}
		return false
	}, time.Minute, time.Millisecond, "one fell silent")
	s.awaitHits("after one was given up")
	s.end()
}
