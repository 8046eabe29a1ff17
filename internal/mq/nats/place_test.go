package nats

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wavehouse/wavehouse/internal/mq"
	"github.com/wavehouse/wavehouse/internal/tenant"
)

// What is stored is found again by the next version only if this holds.
func TestPlacesStayWhereTheyAre(t *testing.T) {
	t.Parallel()
	for topic, want := range map[mq.Topic]place{
		{Tenant: "birch", Table: "pages"}: {1, 3}, {Tenant: "birch", Table: ""}: {3, 7},
		{Tenant: "cedar", Table: "a.b"}: {2, 1}, {Tenant: "dogwood", Table: "weird é/%"}: {3, 3},
	} {
		require.Equal(t, want, placeOf(topic, 4, 8), "%v", topic)
	}
	require.Equal(t, place{}, placeOf(mq.Topic{Tenant: "birch", Table: "pages"}, 1, 1))
	pages, clicks := mq.Topic{Tenant: "0", Table: "pages"}, mq.Topic{Tenant: "0", Table: "clicks"}
	require.Equal(t, []place{{0, 1}, {1, 3}}, []place{placeOf(pages, 1, 2), placeOf(pages, 2, 4)}, "to another partition")
	require.Equal(t, []place{{0, 0}, {0, 3}}, []place{placeOf(clicks, 1, 2), placeOf(clicks, 2, 4)}, "to another shard")
}

func TestTopicsSpreadEvenlyAndFewMove(t *testing.T) {
	t.Parallel()
	counts, moved := map[place]int{}, 0
	const n = 32_000
	for i := range n {
		topic := mq.Topic{Tenant: tenant.ID(fmt.Sprint("t", i%200)), Table: fmt.Sprint(i / 200)}
		at := placeOf(topic, 4, 8)
		counts[at]++
		if placeOf(topic, 5, 8).partition != at.partition {
			moved++
		}
	}
	require.Len(t, counts, 32)
	for at, c := range counts {
		require.InDelta(t, n/32, c, n/32*0.2, "%v", at)
	}
	require.InDelta(t, n/5, moved, n/5*0.1, "to the new one alone")
}

// share is held to its promises over random groups: every place has one owner,
// nobody more than an even share, the order of the members means nothing, and a
// member that comes or goes moves little else.
func TestSharesAreEvenAndFewMove(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		partitions, shards := 1+random.IntN(8), 1+random.IntN(16)
		all := places(partitions, shards)
		var members []string
		for m := range 1 + random.IntN(12) {
			members = append(members, fmt.Sprint("m", m, "-", random.IntN(1000)))
		}
		owners := share(members, all)
		require.Len(t, owners, len(all))
		require.Equal(t, owners, share(shuffled(random, members), shuffledPlaces(random, all)))
		counts := map[string]int{}
		for _, m := range owners {
			require.Contains(t, members, m)
			counts[m]++
		}
		least, most := len(all)/len(members), (len(all)+len(members)-1)/len(members)
		for _, m := range members {
			require.GreaterOrEqual(t, counts[m], least)
			require.LessOrEqual(t, counts[m], most)
		}
		left := slices.Clone(members)[1:]
		if len(left) == 0 {
			continue
		}
		moved := 0
		for p, m := range share(left, all) {
			if owners[p] != m && owners[p] != members[0] {
				moved++
			}
		}
		require.LessOrEqual(t, moved, most+len(members), "of %d places among %d", len(all), len(members))
	}
	require.Empty(t, share(nil, places(2, 2)))
}

func shuffled(random *rand.Rand, in []string) []string {
	out := slices.Clone(in)
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

func shuffledPlaces(random *rand.Rand, in []place) []place {
	out := slices.Clone(in)
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}
