package resource

import "strings"

// maxStrategicWork bounds the pairs of items that a strategic merge patch compares: some 20 ns of
// processor time each. A patch of 3,000 containers is within it.
const maxStrategicWork = 10_000_000

// strategicWork returns an upper bound of the pairs of items that the library compares: to merge
// two lists of objects, it looks for each item of the patch in the whole list. The function itself
// takes time that is linear in both trees.
func strategicWork(live, patch Tree) int {
	lengths := map[string]int{}
	measure(patch, "", func(path string, items int) { lengths[path] = 0 })
	measure(live, "", func(path string, items int) {
		if before, patched := lengths[path]; patched {
			lengths[path] = max(before, items)
		}
	})
	work := 0
	measure(patch, "", func(path string, items int) {
		work = min(work+items*(items+lengths[path]), 2*maxStrategicWork)
	})
	return work
}

// measure calls found for each list of objects in a tree, with the fields that lead to it. Items of
// a list have the same path, and so have lists and the directives on their order.
func measure(value any, path string, found func(path string, items int)) {
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			if directive, field, is := strings.Cut(key, "/"); is && strings.HasPrefix(directive, "$") {
				key = field
			}
			measure(below, path+"/"+key, found)
		}
	case []any:
		objects := 0
		for _, item := range value {
			if _, isObject := item.(map[string]any); isObject {
				objects++
			}
			measure(item, path, found)
		}
		if objects > 0 {
			found(path, len(value))
		}
	}
}
