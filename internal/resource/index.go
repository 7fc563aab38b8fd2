package resource

import (
	"hash/maphash"
	"maps"
)

// An index finds definitions by a key. It is a value: copies share the shards that an editor does
// not change, so that a change costs the size of a shard.
type index[K comparable] [shards]map[K]*Definition

const shards = 64

// seed is the same for all indices, which are copies of each other.
var seed = maphash.MakeSeed()

func shardOf[K comparable](key K) int { return int(maphash.Comparable(seed, key) % shards) }

func (x *index[K]) get(key K) *Definition { return x[shardOf(key)][key] }

// An editor changes an index without changing the copies that share its shards.
type editor[K comparable] struct {
	*index[K]
	own [shards]bool // shards that are shared no more
}

func (e *editor[K]) put(key K, d *Definition) { e.shard(key)[key] = d }

func (e *editor[K]) drop(key K) { delete(e.shard(key), key) }

func (e *editor[K]) shard(key K) map[K]*Definition {
	i := shardOf(key)
	if !e.own[i] {
		e.own[i] = true
		if e.index[i] = maps.Clone(e.index[i]); e.index[i] == nil {
			e.index[i] = map[K]*Definition{}
		}
	}
	return e.index[i]
}
