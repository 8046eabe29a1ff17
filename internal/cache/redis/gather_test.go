package redis_test

import (
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/cache"
	"github.com/wavehouse/wavehouse/internal/cache/redis"
	"github.com/wavehouse/wavehouse/internal/cache/redis/redistest"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// calls are how often a server was asked a command.
func calls(t testing.TB, s *redistest.Server, command string) (n int) {
	t.Helper()
	if value, ok := strings.CutPrefix(s.Info(t, "commandstats", "cmdstat_"+command), "calls="); ok {
		value, _, _ = strings.Cut(value, ",")
		n, err := strconv.Atoi(value)
		require.NoError(t, err)
		return n
	}
	return 0
}

// fillMany keeps an answer of the size for each tenant, and returns the questions.
func fillMany(t *testing.T, c cache.Cache, tenants, size int) map[cache.Key]string {
	t.Helper()
	bodies := map[cache.Key]string{}
	for i := range tenants {
		key := cache.NewKey(tenantOf(i)).Add("q").Key()
		bodies[key] = fmt.Sprint(i, " ", noise(size))
		keep(t, c, key, bodies[key])
	}
	return bodies
}

// keep fills an answer until it is kept.
func keep(t *testing.T, c cache.Cache, key cache.Key, body string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		for range 2 {
			value, ticket := c.Lookup(t.Context(), key)
			if value != nil {
				return
			}
			c.Fill(t.Context(), ticket, cache.NewValue([]byte(body), "text/plain", []string{tableOf(0)}), time.Hour)
		}
		require.True(t, time.Now().Before(end), "the answer of tenant %s is not kept", key.Tenant)
	}
}

// lookAll looks all of them up at once.
func lookAll(t *testing.T, c cache.Cache, bodies map[cache.Key]string) {
	t.Helper()
	lookWhile(t, c, bodies, func() {})
}

// lookWhile is lookAll that does something once all of them are about to look.
func lookWhile(t *testing.T, c cache.Cache, bodies map[cache.Key]string, do func()) {
	t.Helper()
	var all, begun sync.WaitGroup
	begun.Add(len(bodies))
	for key, want := range bodies {
		all.Go(func() {
			begun.Done()
			value, _ := c.Lookup(t.Context(), key)
			if assert.NotNil(t, value, "tenant %s", key.Tenant) {
				got, err := value.Body()
				assert.NoError(t, err)
				assert.True(t, want == string(got), "tenant %s is answered with what is its own", key.Tenant)
			}
		})
	}
	begun.Wait()
	do()
	all.Wait()
}

func TestLookupsThatMeetShareRoundTrips(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		s := redistest.Start(t, flavor, "--save", "")
		o := quick()
		o.Addresses = []string{s.Addr()}
		c := open(t, o)
		for name, size := range map[string]int{"small answers": 10, "answers that do not fit one round trip": 40 << 10} {
			bodies := fillMany(t, c, 64, size)
			before := calls(t, s, "evalsha")
			s.Freeze()
			lookWhile(t, c, bodies, func() {
				time.Sleep(200 * time.Millisecond) // most of them wait by now
				s.Thaw()
			})
			assert.Less(t, calls(t, s, "evalsha")-before, len(bodies), name)
			// And questions that have no answer, among those that have.
			require.NoError(t, c.Invalidate(t.Context(), []tenant.ID{tenantOf(3), tenantOf(5)}, []string{tableOf(0)}))
			var all sync.WaitGroup
			for key := range bodies {
				all.Go(func() {
					value, ticket := c.Lookup(t.Context(), key)
					assert.Equal(t, key.Tenant == tenantOf(3) || key.Tenant == tenantOf(5), value == nil, "tenant %s", key.Tenant)
					assert.NotEmpty(t, ticket.Store.Life)
				})
			}
			all.Wait()
			require.NoError(t, c.InvalidateTenants(t.Context(), idsOf(64)))
		}
	})
}

// A lookup that waits for others ends with its budget, or its caller.
func TestLookupsThatWaitForAHungServerMiss(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, redistest.Redis, "--save", "")
	o := quick()
	o.Addresses, o.OpTimeout = []string{s.Addr()}, 300*time.Millisecond
	c := open(t, o)
	bodies := fillMany(t, c, 16, 10)
	s.Freeze()
	var all sync.WaitGroup
	for key := range bodies {
		for range 4 {
			all.Go(func() {
				value, ticket := c.Lookup(t.Context(), key)
				assert.Nil(t, value)
				assert.Empty(t, ticket.Store.Life)
			})
		}
	}
	all.Wait()
	s.Thaw()
	for key, want := range bodies {
		keep(t, c, key, want)
	}
}

// In a cluster only what belongs to one tenant is asked for together.
func meetInACluster(t *testing.T, o redis.Options) {
	c := open(t, o)
	bodies := fillMany(t, c, 24, 10)
	for key := range maps.Clone(bodies) {
		other := cache.NewKey(key.Tenant).Add("another").Key()
		bodies[other] = "another of " + string(key.Tenant)
		keep(t, c, other, bodies[other])
	}
	for range 5 {
		lookAll(t, c, bodies)
	}
}

func idsOf(n int) (all []tenant.ID) {
	for i := range n {
		all = append(all, tenantOf(i))
	}
	return all
}

// However many tenants read a server's table, the write is told at once.
func TestAWriteIsToldForAThousandTenantsInOneRoundTrip(t *testing.T) {
	redistest.Each(t, func(t *testing.T, flavor redistest.Flavor) {
		s := redistest.Start(t, flavor, "--save", "")
		o := quick()
		o.Addresses = []string{s.Addr()}
		c := open(t, o)
		bodies := fillMany(t, c, 1000, 1)
		require.NoError(t, c.Invalidate(t.Context(), idsOf(1), []string{tableOf(1)})) // makes the script known
		before := calls(t, s, "evalsha")
		require.NoError(t, c.Invalidate(t.Context(), idsOf(1000), []string{tableOf(0)}))
		assert.Equal(t, 1, calls(t, s, "evalsha")-before)
		for key := range bodies {
			value, _ := c.Lookup(t.Context(), key)
			require.Nil(t, value, "tenant %s", key.Tenant)
		}
	})
}
