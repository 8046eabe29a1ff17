package nats

import (
	"cmp"
	"hash/fnv"
	"slices"
)

// share gives each of all places one owner among the members: the same in every
// process that knows the same members, in whatever order. Nobody has more than an
// even share, rounded up, and few places move when a member comes or goes. It is
// rendezvous hashing, whose best matches choose first.
func share(members []string, all []place) map[place]string {
	if len(members) == 0 {
		return map[place]string{}
	}
	type match struct {
		place  place
		member string
		score  uint64
	}
	matches := make([]match, 0, len(members)*len(all))
	for _, m := range members {
		h := fnv.New64a()
		_, _ = h.Write([]byte(m))
		for _, p := range all {
			matches = append(matches, match{p, m, mix(h.Sum64() ^ mix(uint64(p.partition)<<32|uint64(p.shard)))})
		}
	}
	slices.SortFunc(matches, func(a, b match) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.member, b.member),
			cmp.Compare(a.place.partition, b.place.partition), cmp.Compare(a.place.shard, b.place.shard))
	})
	even, more := len(all)/len(members), len(all)%len(members)
	owners, has := make(map[place]string, len(all)), map[string]int{}
	for _, m := range matches {
		if _, taken := owners[m.place]; taken || has[m.member] > even || has[m.member] == even && more == 0 {
			continue
		}
		if has[m.member] == even {
			more--
		}
		has[m.member]++
		owners[m.place] = m.member
	}
	return owners
}
