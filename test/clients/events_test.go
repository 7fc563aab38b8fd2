package clients

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// somePod creates a pod.
func somePod(t *testing.T, client kubernetes.Interface, name string) *corev1.Pod {
	t.Helper()
	pod, err := client.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return pod
}

// awaitEvent watches the core group until a matching event exists.
func awaitEvent(t *testing.T, client kubernetes.Interface, fields string, wanted func(e *corev1.Event) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	w, err := client.CoreV1().Events("default").Watch(ctx, metav1.ListOptions{FieldSelector: fields})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for e := range w.ResultChan() {
		if event, ok := e.Object.(*corev1.Event); ok && wanted(event) {
			return
		}
	}
	t.Error("there is no such event")
}

// TestRecorder checks that an event recorded in the group of events is visible in the core group,
// and becomes a series when it is repeated.
func TestRecorder(t *testing.T) {
	client, err := kubernetes.NewForConfig(start(t))
	if err != nil {
		t.Fatal(err)
	}
	pod := somePod(t, client, "p")
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: client.EventsV1()})
	t.Cleanup(broadcaster.Shutdown)
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	recorder := broadcaster.NewRecorder(scheme.Scheme, "example.com/recorder")
	recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Started", "Starting", "it is number %d", 1)
	const ofPod = "involvedObject.name=p,reason=Started"
	awaitEvent(t, client, ofPod, func(e *corev1.Event) bool {
		return e.ReportingController == "example.com/recorder" && e.Message == "it is number 1" && e.Series == nil
	})
	recorder.Eventf(pod, nil, corev1.EventTypeNormal, "Started", "Starting", "it is number %d", 1)
	awaitEvent(t, client, ofPod, func(e *corev1.Event) bool { return e.Series != nil && e.Series.Count == 2 })
}

func TestControllerRuntimeRecorder(t *testing.T) {
	config := start(t)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	pod := somePod(t, client, "p")
	manager, err := ctrl.NewManager(config, ctrl.Options{Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- manager.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	manager.GetEventRecorder("example.com-controller").Eventf(pod, nil, corev1.EventTypeWarning, "Failed", "Trying", "it did not work")
	awaitEvent(t, client, "involvedObject.uid="+string(pod.UID), func(e *corev1.Event) bool {
		return e.Type == corev1.EventTypeWarning && e.Message == "it did not work"
	})
}

// TestBindAndEvict uses typed clients like schedulers and kubectl drain.
func TestBindAndEvict(t *testing.T) {
	config := start(t)
	for _, media := range []string{runtime.ContentTypeJSON, runtime.ContentTypeProtobuf} {
		config := rest.CopyConfig(config)
		config.ContentType = media
		client, err := kubernetes.NewForConfig(config)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(media, func(t *testing.T) { bindAndEvict(t, client) })
	}
}

func bindAndEvict(t *testing.T, client kubernetes.Interface) {
	pod := somePod(t, client, "p")
	pods := client.CoreV1().Pods("default")
	binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := pods.Bind(t.Context(), binding, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
		t.Errorf("bound twice: %v", err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Name: "p"}, DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}}
	if err := pods.EvictV1(t.Context(), eviction); err != nil {
		t.Fatal(err)
	}
	if _, err := pods.Get(t.Context(), "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("after the eviction: %v", err)
	}
	if err := pods.EvictV1(t.Context(), eviction); !apierrors.IsNotFound(err) {
		t.Errorf("evicted twice: %v", err)
	}
}
