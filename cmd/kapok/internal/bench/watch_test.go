package bench

import "testing"

func TestReplicasIn(t *testing.T) {
	for line, want := range map[string]int{
		``:                              -1,
		`{"type":"BOOKMARK"}`:           -1,
		`{"f:replicas":{}}`:             -1,
		`{"spec":{"replicas":}}`:        -1,
		`{"spec":{"replicas":1234`:      -1,
		`{"spec":{"replicas":1234}}`:    1234,
		`{"spec":{"replicas":7,"a":1}}`: 7,
	} {
		if got := replicasIn([]byte(line)); got != want {
			t.Errorf("%s: %d, want %d", line, got, want)
		}
	}
}
