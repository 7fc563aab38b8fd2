package resource

// mergeTree applies a JSON merge patch (RFC 7386) to a tree, in place; the result
// shares what it takes from the patch. Nulls in what is new are dropped, but not
// those that are elements of lists, as github.com/evanphx/json-patch has it.
func mergeTree(obj, patch Tree) {
	for k, v := range patch {
		switch cur := obj[k]; {
		case v == nil:
			delete(obj, k)
		case cur == nil:
			pruneNulls(v)
			obj[k] = v
		default:
			obj[k] = mergeValue(cur, v)
		}
	}
}

func mergeValue(cur, patch any) any {
	into, ok := cur.(map[string]any)
	if !ok {
		pruneNulls(patch)
		return patch
	}
	from, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	mergeTree(into, from)
	return into
}

func pruneNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, member := range v {
			if member == nil {
				delete(v, k)
				continue
			}
			pruneNulls(member)
		}
	case []any:
		for _, item := range v {
			pruneNulls(item)
		}
	}
}
