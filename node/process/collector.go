package process

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/node/internal/recorder"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// collectInterval is the time between two collections of images, that of the kubelet.
const collectInterval = 5 * time.Minute

// A collector removes images that are not in use. It is a Runnable.
type collector struct {
	*pods
	log logr.Logger
}

// Start implements manager.Runnable.
func (c *collector) Start(ctx context.Context) error {
	for {
		// The first time at the start, which frees what a crash during a pull has left behind.
		if err := c.options.Store.Collect(c.usesImage()); err != nil {
			c.log.Error(err, "Cannot remove images that are not in use")
		}
		if !pause(ctx, collectInterval) {
			return nil
		}
	}
}

// usesImage returns a function that reports whether a container runs an image, has run it and can
// be restarted, or is about to start.
func (p *pods) usesImage() func(id string) bool {
	used := p.images.ids()
	for _, pod := range p.runtime.Pods() {
		for _, run := range p.runtime.Runs(pod) {
			used[run.Image] = true
		}
	}
	return func(id string) bool { return used[id] }
}

// ids returns the images of prepared programs.
func (i *images) ids() map[string]bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	all := map[string]bool{}
	for _, p := range i.pulls {
		if p.image != nil {
			all[p.image.ID] = true
		}
	}
	return all
}

// pullSecrets returns the Secrets of the imagePullSecrets of a pod. One that does not exist is an
// event, as with a kubelet.
func (p *pods) pullSecrets(ctx context.Context, pod *corev1.Pod) []corev1.Secret {
	var all []corev1.Secret
	var absent []string
	for _, r := range pod.Spec.ImagePullSecrets {
		var s corev1.Secret
		if r.Name == "" {
			continue
		}
		if err := p.client.Get(ctx, client.Key(pod.Namespace, r.Name), &s); err != nil {
			absent = append(absent, r.Name)
			continue
		}
		all = append(all, s)
	}
	if len(absent) > 0 {
		p.events.Record(pod, recorder.Event{
			Type: corev1.EventTypeWarning, Reason: "FailedToRetrieveImagePullSecret",
			Message: fmt.Sprintf("Unable to retrieve some image pull secrets (%s); attempting to pull the image may not succeed.", strings.Join(absent, ", ")),
		})
	}
	return all
}

// imageEvent records an event of the image of a container.
func (p *pods) imageEvent(pod *corev1.Pod, container, reason, message string) {
	p.events.Record(pod, recorder.Event{Type: corev1.EventTypeNormal, Reason: reason, Message: message, FieldPath: fieldPath(pod, container)})
}
