package shards

import (
	"hash/fnv"
)

// Owns reports whether a key belongs to this member. It is safe for concurrent use, and its answer
// does not change.
type Owns func(key string) bool

// divide returns the Owns of a member of a set.
func divide(members []string, self string) Owns {
	seeds := make([]uint64, len(members))
	mine := -1
	for i, m := range members {
		seeds[i] = mix(sum(m))
		if m == self {
			mine = i
		}
	}
	return func(key string) bool {
		k := sum(key)
		best, owner := uint64(0), -1
		for i, seed := range seeds {
			if score := mix(seed ^ k); owner < 0 || score > best {
				best, owner = score, i
			}
		}
		return owner == mine
	}
}

func sum(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s)) // a hash returns no error
	return h.Sum64()
}

// mix spreads each bit over the whole number (the finaliser of SplitMix64).
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}
