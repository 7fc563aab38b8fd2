package job

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// indexes is a set of completion indexes: the intervals that it consists of, in order, none of
// which overlaps or touches the next one. Its text is that of status.completedIndexes: "1,3-5,7".
type indexes []interval

type interval struct{ first, last int }

// parseIndexes parses a text, without indexes of completions or more. It ignores invalid indexes.
func parseIndexes(text string, completions int) (all indexes) {
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err1 := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err1 != nil || err2 != nil || first < 0 || last < first || first >= completions {
			continue
		}
		all = append(all, interval{first, min(last, completions-1)})
	}
	return normalized(all)
}

// normalized sorts and joins intervals, in place.
func normalized(all indexes) indexes {
	slices.SortFunc(all, func(a, b interval) int { return cmp.Compare(a.first, b.first) })
	joined := all[:0]
	for _, i := range all {
		if n := len(joined); n > 0 && i.first <= joined[n-1].last+1 {
			joined[n-1].last = max(joined[n-1].last, i.last)
		} else {
			joined = append(joined, i)
		}
	}
	return joined
}

// with returns the union with a list of indexes.
func (s indexes) with(more []int) indexes {
	all := slices.Clone(s)
	for _, i := range more {
		all = append(all, interval{i, i})
	}
	return normalized(all)
}

// union returns the union of sets.
func union(sets ...indexes) indexes { return normalized(slices.Concat(sets...)) }

func (s indexes) has(index int) bool {
	_, found := slices.BinarySearchFunc(s, index, func(i interval, index int) int {
		switch {
		case i.last < index:
			return -1
		case i.first > index:
			return 1
		}
		return 0
	})
	return found
}

// count returns the number of indexes in the set.
func (s indexes) count() (n int) {
	for _, i := range s {
		n += i.last - i.first + 1
	}
	return n
}

// common returns the number of indexes that are in both sets.
func (s indexes) common(other indexes) (n int) {
	for len(s) > 0 && len(other) > 0 {
		n += max(0, min(s[0].last, other[0].last)-max(s[0].first, other[0].first)+1)
		if s[0].last < other[0].last {
			s = s[1:]
		} else {
			other = other[1:]
		}
	}
	return n
}

// missing returns the first n indexes below completions that are not in the set.
func (s indexes) missing(n, completions int) (all []int) {
	next := 0
	for _, i := range append(slices.Clone(s), interval{completions, completions}) {
		for ; next < min(i.first, completions) && len(all) < n; next++ {
			all = append(all, next)
		}
		next = max(next, i.last+1)
	}
	return all
}

// String returns the text of the set.
func (s indexes) String() string {
	var b strings.Builder
	for _, i := range s {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(i.first))
		switch {
		case i.last == i.first+1:
			b.WriteByte(',')
			b.WriteString(strconv.Itoa(i.last))
		case i.last > i.first:
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(i.last))
		}
	}
	return b.String()
}

// indexOf returns the completion index of a pod; -1 if it has none, or none that is valid.
func indexOf(p *corev1.Pod) int {
	index, err := strconv.Atoi(p.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || index < 0 {
		return -1
	}
	return index
}

// indexesOf returns the completion indexes of pods.
func indexesOf(pods []*corev1.Pod) indexes {
	var list []int
	for _, p := range pods {
		if i := indexOf(p); i >= 0 {
			list = append(list, i)
		}
	}
	return indexes{}.with(list)
}
