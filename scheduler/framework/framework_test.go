package framework

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// TestStatus checks codes, messages and errors, also of a nil Status.
func TestStatus(t *testing.T) {
	cause := errors.New("cause")
	for _, tc := range []struct {
		status            *Status
		code, message     string
		success, rejected bool
		err               string
	}{
		{nil, "Success", "", true, false, "<nil>"},
		{NewStatus(Success, "ignored"), "Success", "ignored", true, false, "<nil>"},
		{AsStatus(nil), "Success", "", true, false, "<nil>"},
		{AsStatus(cause), "Error", "cause", false, false, "cause"},
		{NewStatus(Unschedulable, "a", "b"), "Unschedulable", "a, b", false, true, "a, b"},
		{NewStatus(UnschedulableAndUnresolvable), "UnschedulableAndUnresolvable", "", false, true, "UnschedulableAndUnresolvable"},
		{NewStatus(Wait), "Wait", "", false, false, "Wait"},
		{NewStatus(Skip), "Skip", "", false, false, "Skip"},
		{NewStatus(Code(99)), "invalid code", "", false, false, "invalid code"},
	} {
		s := tc.status
		if s.Code().String() != tc.code || s.Message() != tc.message || s.IsSuccess() != tc.success || s.IsRejected() != tc.rejected || fmt.Sprint(s.AsError()) != tc.err {
			t.Errorf("got %v, %q, success %t, rejected %t, error %v; want %+v", s.Code(), s.Message(), s.IsSuccess(), s.IsRejected(), s.AsError(), tc)
		}
	}
	if !errors.Is(AsStatus(fmt.Errorf("more: %w", cause)).AsError(), cause) {
		t.Error("the error of a status does not wrap its cause")
	}
}

// TestDecodeArgs checks arguments in JSON and as an object, defaults, and mistakes.
func TestDecodeArgs(t *testing.T) {
	type args struct {
		Rack string `json:"rack"`
		Size int    `json:"size"`
	}
	for text, want := range map[string]args{"": {"default", 1}, " ": {"default", 1}, `{"rack": "a"}`: {"a", 1}, `{"size": 7}`: {"default", 7}} {
		got := args{"default", 1}
		if err := DecodeArgs(runtime.RawExtension{Raw: []byte(text)}, &got); err != nil || got != want {
			t.Errorf("%s: got %+v, %v; want %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		`{"Rack": "a"}`: `arguments: unknown field "Rack"`, `{"size": 1, "size": 2}`: `arguments: duplicate field "size"`, `{"size": "x"}`: "arguments: json: cannot unmarshal", `{`: "arguments: unexpected end",
	} {
		if err := DecodeArgs(runtime.RawExtension{Raw: []byte(text)}, &args{}); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", text, err, want)
		}
	}
	var weight struct {
		HardPodAffinityWeight              int32 `json:"hardPodAffinityWeight"`
		IgnorePreferredTermsOfExistingPods bool  `json:"ignorePreferredTermsOfExistingPods"`
	}
	object := runtime.RawExtension{Object: &configv1.InterPodAffinityArgs{HardPodAffinityWeight: new(int32(5))}}
	if err := DecodeArgs(object, &weight); err != nil || weight.HardPodAffinityWeight != 5 {
		t.Errorf("got %+v, %v; want 5", weight, err)
	}
}

// TestNodeInfo checks a node with pods, for tests of plugins.
func TestNodeInfo(t *testing.T) {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}, Status: corev1.NodeStatus{Allocatable: corev1.ResourceList{"cpu": resource.MustParse("2"), "example.com/gpu": resource.MustParse("4")}}}
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}
	p.Spec.Containers = []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("300m"), "example.com/gpu": resource.MustParse("1")}}}}
	info := NewNodeInfo(n, p, p.DeepCopy())
	if info.Node() != n || info.PodCount() != 2 || len(slices.Collect(info.Pods())) != 2 {
		t.Errorf("%d pods on %v, want 2 on %v", info.PodCount(), info.Node(), n)
	}
	if has, used := info.Allocatable(), info.Requested(); has.CPU != 2000 || used.CPU != 600 || has.Others["example.com/gpu"] != 4 || used.Others["example.com/gpu"] != 2 {
		t.Errorf("allocatable %+v, requested %+v", has, used)
	}
}

// TestCycleState checks values.
func TestCycleState(t *testing.T) {
	s := NewCycleState()
	if s.Read("a") != nil {
		t.Error("a new state has a value")
	}
	s.Write("a", 1)
	if s.Read("a") != 1 {
		t.Errorf("value %v, want 1", s.Read("a"))
	}
	if s.Delete("a"); s.Read("a") != nil {
		t.Error("a deleted value is there")
	}
}
