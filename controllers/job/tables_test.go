package job

import (
	"fmt"
	"slices"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestIndexesText(t *testing.T) {
	for _, tc := range []struct {
		text        string
		completions int
		want        string
		count       int
	}{
		{"", 5, "", 0},
		{"0", 5, "0", 1},
		{"1,3", 5, "1,3", 2},
		{"1-2", 5, "1,2", 2},
		{"1-3", 5, "1-3", 3},
		{"0,1,2,4", 5, "0-2,4", 4},
		{"0-9", 5, "0-4", 5},
		{"4,5,6", 5, "4", 1},
		{"7-9", 5, "", 0},
		{"3,1", 5, "1,3", 2},
		{"1-3,2-4", 5, "1-4", 4},
		{"x,1,2-x,3-,-4,3-2", 5, "1", 1},
	} {
		got := parseIndexes(tc.text, tc.completions)
		if got.String() != tc.want || got.count() != tc.count {
			t.Errorf("%q below %d: %q with %d, want %q with %d", tc.text, tc.completions, got, got.count(), tc.want, tc.count)
		}
	}
}

// TestIndexesTwin compares the sets with maps, for all subsets of eight indexes.
func TestIndexesTwin(t *testing.T) {
	const completions = 8
	members := func(bits int) (list []int) {
		for i := range completions {
			if bits>>i&1 == 1 {
				list = append(list, i)
			}
		}
		return list
	}
	for bits := range 1 << completions {
		list := members(bits)
		s := indexes{}.with(list)
		if parsed := parseIndexes(s.String(), completions); !slices.Equal(parsed, s) {
			t.Fatalf("%v is %q, and that is %v", list, s, parsed)
		}
		if s.count() != len(list) {
			t.Fatalf("%q has %d indexes, want %d", s, s.count(), len(list))
		}
		var missing []int
		for i := range completions {
			if s.has(i) != slices.Contains(list, i) {
				t.Fatalf("%q has %d: %t", s, i, s.has(i))
			}
			if !s.has(i) {
				missing = append(missing, i)
			}
		}
		for n := range completions + 1 {
			if got, want := s.missing(n, completions), missing[:min(n, len(missing))]; !slices.Equal(got, want) {
				t.Fatalf("%q misses %v, want %v", s, got, want)
			}
		}
		for other := range 1 << completions {
			o := indexes{}.with(members(other))
			if got, want := s.common(o), len(members(bits&other)); got != want {
				t.Fatalf("%q and %q have %d in common, want %d", s, o, got, want)
			}
			if got, want := union(s, o), (indexes{}).with(members(bits|other)); !slices.Equal(got, want) {
				t.Fatalf("%q and %q are %q, want %q", s, o, got, want)
			}
		}
	}
}

func TestBackoff(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tc := range []struct {
		failures int32
		passed   time.Duration
		want     time.Duration
	}{
		{0, 0, 0},
		{1, 0, 10 * time.Second},
		{1, 4 * time.Second, 6 * time.Second},
		{1, 10 * time.Second, 0},
		{1, time.Hour, 0},
		{2, 0, 20 * time.Second},
		{6, 0, 320 * time.Second},
		{7, 0, 10 * time.Minute},
		{1 << 30, 0, 10 * time.Minute},
		{1, -time.Second, 11 * time.Second}, // the clock went back
	} {
		if got := (backoff{tc.failures, start}).left(start.Add(tc.passed)); got != tc.want {
			t.Errorf("%d failures, %v later: %v left, want %v", tc.failures, tc.passed, got, tc.want)
		}
	}
}

func TestBackoffAfter(t *testing.T) {
	start := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)
	pods := func(seconds ...int) (all []*corev1.Pod) {
		for _, s := range seconds {
			end := metav1.NewTime(start.Add(time.Duration(s) * time.Second))
			all = append(all, &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
				State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: end}},
			}}}})
		}
		return all
	}
	for _, tc := range []struct {
		before            backoff
		succeeded, failed []int
		want              string
	}{
		{backoff{}, nil, nil, "0 failures"},
		{backoff{}, nil, []int{3}, "1 failures, 3s"},
		{backoff{2, start}, nil, []int{3, 1}, "4 failures, 3s"},
		{backoff{2, start}, []int{2}, nil, "0 failures"},
		{backoff{2, start}, []int{2}, []int{1, 2, 4, 3}, "2 failures, 4s"},
		{backoff{2, start}, []int{5}, []int{1, 4}, "0 failures"},
		{backoff{2, start}, nil, nil, "2 failures, 0s"},
	} {
		b := tc.before.after(pods(tc.succeeded...), pods(tc.failed...))
		got := fmt.Sprintf("%d failures", b.failures)
		if b.failures > 0 {
			got += ", " + b.last.Sub(start).String()
		}
		if got != tc.want {
			t.Errorf("%v, then successes %v and failures %v: %s, want %s", tc.before, tc.succeeded, tc.failed, got, tc.want)
		}
	}
}

func TestEndOf(t *testing.T) {
	at := func(seconds int) metav1.Time { return metav1.Unix(int64(seconds), 0) }
	always := corev1.ContainerRestartPolicyAlways
	ended := func(name string, seconds int) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{FinishedAt: at(seconds)}}}
	}
	notReady := []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: at(50)}}
	deleted, grace := at(100), int64(30)
	for name, tc := range map[string]struct {
		pod  corev1.Pod
		want int64
	}{
		"last container": {corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{ended("a", 3), ended("b", 7), ended("c", 5)}}}, 7},
		"a container runs": {corev1.Pod{Status: corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{ended("a", 3), {Name: "b"}}, Conditions: notReady,
		}}, 50},
		"sidecar": {corev1.Pod{
			Spec: corev1.PodSpec{InitContainers: []corev1.Container{{Name: "s", RestartPolicy: &always}, {Name: "i"}}},
			Status: corev1.PodStatus{
				ContainerStatuses: []corev1.ContainerStatus{ended("a", 3)}, InitContainerStatuses: []corev1.ContainerStatus{ended("s", 9), ended("i", 20)},
			},
		}, 9},
		"not ready": {corev1.Pod{Status: corev1.PodStatus{Conditions: notReady}}, 50},
		"deleted":   {corev1.Pod{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted, DeletionGracePeriodSeconds: &grace}}, 70},
		"created":   {corev1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1)}}, 1},
	} {
		if got := endOf(&tc.pod).Unix(); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
}

func TestNumber(t *testing.T) {
	for text, want := range map[string]int32{"": 0, "3": 3, "-1": 0, "x": 0, "2147483647": 2147483647, "2147483648": 0} {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{batchv1.JobIndexFailureCountAnnotation: text}}}
		if got := number(p, batchv1.JobIndexFailureCountAnnotation); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

func TestIndexPrefix(t *testing.T) {
	long := "abcdefghij-abcdefghij-abcdefghij-abcdefghij-abcdefghij-abcdefghij"
	for _, tc := range []struct{ name, index, want string }{
		{"a", "0", "a-0-"},
		{long, "12", long[:54] + "-12-"},
	} {
		if got := indexPrefix(tc.name, tc.index); got != tc.want || len(got) > 58 {
			t.Errorf("%s, %s: %s, want %s", tc.name, tc.index, got, tc.want)
		}
	}
}

func TestSuccessMessage(t *testing.T) {
	text, count := func(s string) *string { return &s }, func(n int32) *int32 { return &n }
	for _, tc := range []struct {
		done  string
		rules []batchv1.SuccessPolicyRule
		want  string
	}{
		{"", []batchv1.SuccessPolicyRule{{SucceededCount: count(1)}}, ""},
		{"3", []batchv1.SuccessPolicyRule{{SucceededCount: count(1)}}, "Matched rules at index 0"},
		{"3", []batchv1.SuccessPolicyRule{{SucceededCount: count(2)}}, ""},
		{"0-2", []batchv1.SuccessPolicyRule{{SucceededIndexes: text("0-3")}}, ""},
		{"0-3", []batchv1.SuccessPolicyRule{{SucceededIndexes: text("1,3")}}, "Matched rules at index 0"},
		{"0,2", []batchv1.SuccessPolicyRule{{SucceededIndexes: text("0-3"), SucceededCount: count(2)}}, "Matched rules at index 0"},
		{"0,4", []batchv1.SuccessPolicyRule{{SucceededIndexes: text("0-3"), SucceededCount: count(2)}}, ""},
		{"4", []batchv1.SuccessPolicyRule{{SucceededIndexes: text("0")}, {SucceededIndexes: text("4")}}, "Matched rules at index 1"},
		{"4", []batchv1.SuccessPolicyRule{{SucceededIndexes: text("20-30")}}, ""},
	} {
		if got := successMessage(&batchv1.SuccessPolicy{Rules: tc.rules}, parseIndexes(tc.done, 10), 10); got != tc.want {
			t.Errorf("%q: %q, want %q", tc.done, got, tc.want)
		}
	}
}
