package resource

import "maps"

// merged returns obj with a JSON merge patch (RFC 7386) applied. It changes neither of them, and
// the result shares values with both. Nulls in new objects are dropped, but not those that are
// elements of lists, as in github.com/evanphx/json-patch.
func merged(obj, patch Tree) Tree {
	result := maps.Clone(obj)
	for k, v := range patch {
		switch cur := obj[k]; {
		case v == nil:
			delete(result, k)
		case cur == nil:
			result[k] = withoutNulls(v)
		default:
			result[k] = mergedValue(cur, v)
		}
	}
	return result
}

func mergedValue(cur, patch any) any {
	into, ofObject := cur.(map[string]any)
	from, byObject := patch.(map[string]any)
	switch {
	case ofObject && byObject:
		return merged(into, from)
	case ofObject:
		return patch // as it is, with its nulls
	}
	return withoutNulls(patch)
}

// withoutNulls returns a value without members of objects that are null.
func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		result := make(map[string]any, len(v))
		for k, member := range v {
			if member != nil {
				result[k] = withoutNulls(member)
			}
		}
		return result
	case []any:
		result := make([]any, len(v))
		for i, item := range v {
			result[i] = withoutNulls(item)
		}
		return result
	}
	return v
}
