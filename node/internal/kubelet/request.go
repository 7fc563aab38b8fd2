package kubelet

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// LogOptions select a part of a log.
type LogOptions struct {
	Follow, Previous, Timestamps bool
	Stream                       string
	Tail                         int // lines; negative: all
	Limit                        int // bytes; negative: all
	Since                        time.Time
}

// ParseLogOptions reads the parameters of a request for a log.
func ParseLogOptions(q url.Values) (o LogOptions, err error) {
	o = LogOptions{Tail: -1, Limit: -1, Stream: q.Get("stream")}
	o.Follow, o.Previous, o.Timestamps = q.Get("follow") == "true", q.Get("previous") == "true", q.Get("timestamps") == "true"
	for name, into := range map[string]*int{"tailLines": &o.Tail, "limitBytes": &o.Limit} {
		if text := q.Get(name); text != "" {
			if *into, err = strconv.Atoi(text); err != nil || *into < 0 {
				return o, fmt.Errorf("%s is %q: want a number", name, text)
			}
		}
	}
	if text := q.Get("sinceSeconds"); text != "" {
		seconds, err := strconv.Atoi(text)
		if err != nil {
			return o, fmt.Errorf("sinceSeconds is %q: want a number", text)
		}
		o.Since = time.Now().Add(-time.Duration(seconds) * time.Second)
	}
	if text := q.Get("sinceTime"); text != "" {
		if o.Since, err = time.Parse(time.RFC3339, text); err != nil {
			return o, fmt.Errorf("sinceTime is %q: want a time like 2006-01-02T15:04:05Z", text)
		}
	}
	return o, nil
}

// StatusOf returns the status of a container, nil if it has none.
func StatusOf(p *corev1.Pod, container string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses, p.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == container {
				return &list[i]
			}
		}
	}
	return nil
}

// LoggedSince returns when the container whose log is read has started, and whether it runs. Errors
// are those of the kubelet.
func LoggedSince(p *corev1.Pod, status *corev1.ContainerStatus, container string, previous bool) (began metav1.Time, running bool, err error) {
	if status == nil {
		return began, false, fmt.Errorf("container %q in pod %q is not available", container, p.Name)
	}
	last := status.LastTerminationState.Terminated
	switch state := status.State; {
	case previous && last == nil:
		return began, false, fmt.Errorf("previous terminated container %q in pod %q not found", container, p.Name)
	case previous:
		return last.StartedAt, false, nil
	case state.Running != nil:
		return state.Running.StartedAt, true, nil
	case state.Terminated != nil:
		return state.Terminated.StartedAt, false, nil
	case last != nil: // it waits to be started again
		return last.StartedAt, false, nil
	case state.Waiting != nil && state.Waiting.Reason != "":
		return began, false, fmt.Errorf("container %q in pod %q is waiting to start: %s", container, p.Name, state.Waiting.Reason)
	}
	return began, false, fmt.Errorf("container %q in pod %q is waiting to start", container, p.Name)
}

// Speaks reports whether the library knows a protocol of a WebSocket, if the request asks for one.
// It would log an error for each other request, such as the first of kubectl exec, which then uses
// SPDY.
func Speaks(r *http.Request) bool {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return true
	}
	for _, list := range r.Header.Values("Sec-WebSocket-Protocol") {
		for protocol := range strings.SplitSeq(list, ",") {
			switch strings.TrimPrefix(strings.TrimSpace(protocol), "v4.") {
			case "channel.k8s.io", "base64.channel.k8s.io":
				return true
			}
		}
	}
	return len(r.Header.Values("Sec-WebSocket-Protocol")) == 0
}
