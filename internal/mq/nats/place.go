package nats

import (
	"fmt"
	"hash/fnv"
	"strconv"

	"github.com/wavehouse/wavehouse/internal/mq"
)

// place is where a topic's chunks lie: a partition, and a shard of it.
type place struct{ partition, shard int }

func (p place) String() string {
	return strconv.Itoa(p.partition) + "." + strconv.Itoa(p.shard)
}

func parsePlace(s string) (at place, err error) {
	if _, err = fmt.Sscanf(s, "%d.%d", &at.partition, &at.shard); err != nil {
		err = fmt.Errorf("shard %q: want a partition, a dot and a shard: %w", s, err)
	}
	return at, err
}

// placeOf is the same in every process and version: what is stored must be
// found. Jump hash moves few topics when a number grows.
func placeOf(t mq.Topic, partitions, shards int) place {
	h := fnv.New64a()
	_, _ = h.Write([]byte(string(t.Tenant) + "/" + t.Table))
	// One hash for both would leave most shards of a partition empty.
	return place{jump(mix(h.Sum64()), partitions), jump(mix(h.Sum64()+1), shards)}
}

// mix spreads a hash over all bits, as splitmix64 does.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// jump is the jump consistent hash of Lamping and Veach: a bucket of 0 to n-1.
func jump(key uint64, n int) int {
	b, j := int64(-1), int64(0)
	for j < int64(n) {
		b = j
		key = key*2862933555777941757 + 1
		j = int64(float64(b+1) * (float64(int64(1)<<31) / float64((key>>33)+1)))
	}
	return int(b)
}
