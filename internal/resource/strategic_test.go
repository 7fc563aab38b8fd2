package resource

import (
	"fmt"
	"testing"
)

func listOf(n int, item func(i int) any) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = item(i)
	}
	return all
}

func named(i int) any { return map[string]any{"name": fmt.Sprint("c", i)} }

func TestStrategicWork(t *testing.T) {
	containers := func(n int) Tree { return Tree{"spec": Tree{"containers": listOf(n, named)}} }
	for _, tt := range []struct {
		name        string
		live, patch Tree
		want        int
	}{
		{"no list", Tree{}, Tree{"spec": Tree{"a": "b"}}, 0},
		{"a new list", Tree{}, containers(10), 100},
		{"into a list", containers(20), containers(10), 300},
		{"another list of the object is long", Tree{"spec": Tree{"volumes": listOf(5000, named)}}, containers(10), 100},
		{"a list of texts", Tree{}, Tree{"metadata": Tree{"finalizers": listOf(5000, func(i int) any { return fmt.Sprint(i) })}}, 0},
		{"an order", containers(20), Tree{"spec": Tree{"$setElementOrder/containers": listOf(10, named)}}, 300},
		{"lists in lists", Tree{}, Tree{"spec": Tree{"containers": listOf(10, func(int) any { return map[string]any{"env": listOf(5, named)} })}}, 100 + 10*25},
		{"too much", containers(10_000), containers(10_000), 2 * maxStrategicWork},
	} {
		if got := strategicWork(tt.live, tt.patch); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
