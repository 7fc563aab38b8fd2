package place

import "encoding/binary"

// A group is the nodes that are feasible by the rules about single nodes, and that the other rules
// do not distinguish: their scores differ only in verdict.score. So a decision compares the best
// node of each group. A node that has changed moves within its group, or to another one, in
// logarithmic time.
type group struct {
	key   string
	index int // in class.groups
	// nodes is a heap of slots, the best one first. The position of a slot is in its verdict.
	nodes []int32
}

// Alike are nodes that a rule does not distinguish.
type Alike struct {
	*Node     // one of them
	Count int // how many there are
}

// regroup puts a node into its group, after the verdict on it, or the rules about several nodes,
// have changed.
func (k *class) regroup(c *Cluster, slot int) {
	v := &k.verdicts[slot]
	if v.group != nil {
		k.leave(v)
	}
	n := c.slots[slot]
	if !v.known || v.refusal != nil || v.late != nil || k.only != nil && !k.only[n.Name] {
		return
	}
	key := k.room[:0]
	for _, score := range v.raw {
		key = binary.AppendVarint(key, score)
	}
	for i := range k.rules {
		if w := k.rules[i].Wide; w != nil {
			key = w.Trait(key, n)
		}
	}
	k.room = key
	g := k.byKey[string(key)]
	if g == nil {
		g = &group{key: string(key), index: len(k.groups)}
		k.byKey[g.key] = g
		k.groups = append(k.groups, g)
	}
	v.group, v.index, v.rank, v.tie = g, int32(len(g.nodes)), v.score, n.tie
	g.nodes = append(g.nodes, int32(slot))
	k.up(g, len(g.nodes)-1)
}

// leave removes a node from its group, and an empty group from the class.
func (k *class) leave(v *verdict) {
	g, at, last := v.group, int(v.index), len(v.group.nodes)-1
	v.group = nil
	if at != last {
		g.nodes[at] = g.nodes[last]
		k.verdicts[g.nodes[at]].index = int32(at)
	}
	g.nodes = g.nodes[:last]
	if at != last && !k.up(g, at) {
		k.down(g, at)
	}
	if last == 0 {
		delete(k.byKey, g.key)
		moved := k.groups[len(k.groups)-1]
		k.groups[g.index], moved.index = moved, g.index
		k.groups = k.groups[:len(k.groups)-1]
	}
}

// better reports whether a node of a group is chosen before another one.
func (k *class) better(a, b int32) bool {
	if x, y := k.verdicts[a].rank, k.verdicts[b].rank; x != y {
		return x > y
	}
	return k.verdicts[a].tie < k.verdicts[b].tie
}

func (k *class) up(g *group, at int) (moved bool) {
	for at > 0 {
		parent := (at - 1) / 2
		if !k.better(g.nodes[at], g.nodes[parent]) {
			break
		}
		k.swap(g, at, parent)
		at, moved = parent, true
	}
	return moved
}

func (k *class) down(g *group, at int) {
	for {
		child := 2*at + 1
		if child >= len(g.nodes) {
			return
		}
		if child+1 < len(g.nodes) && k.better(g.nodes[child+1], g.nodes[child]) {
			child++
		}
		if !k.better(g.nodes[child], g.nodes[at]) {
			return
		}
		k.swap(g, at, child)
		at = child
	}
}

func (k *class) swap(g *group, a, b int) {
	g.nodes[a], g.nodes[b] = g.nodes[b], g.nodes[a]
	k.verdicts[g.nodes[a]].index, k.verdicts[g.nodes[b]].index = int32(a), int32(b)
}

// best returns the best feasible node, nil if there is none, and how many are feasible.
func (c *Cluster) best(k *class) (best *Node, feasible int) {
	if k.refusal != nil {
		return nil, 0
	}
	wide := k.begin()
	alike := k.alike[:0]
	for _, g := range k.groups {
		n := c.slots[g.nodes[0]]
		if refusedBy(wide, n) != nil {
			continue
		}
		feasible += len(g.nodes)
		alike = append(alike, Alike{n, len(g.nodes)})
	}
	k.alike = alike
	if len(alike) == 0 {
		return nil, 0
	}
	totals := k.totals(alike, nil)
	at := 0
	for i := range alike {
		if totals[i] > totals[at] || totals[i] == totals[at] && alike[i].tie < alike[at].tie {
			at = i
		}
	}
	return alike[at].Node, feasible
}

// eachIsAlone returns each node as one that is like no other.
func eachIsAlone(nodes []*Node) []Alike {
	all := make([]Alike, len(nodes))
	for i, n := range nodes {
		all[i] = Alike{n, 1}
	}
	return all
}
