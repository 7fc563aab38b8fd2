package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

const (
	// showPullError is the time for which the reason of a failed pull is ErrImagePull. Then it is
	// ImagePullBackOff, until the next attempt.
	showPullError = 5 * time.Second
	imageSize     = 10_000_000 // bytes, in events
)

// ready reports whether a container can be started for the first time.
func (l *look) ready(c *container, t *turn) bool {
	pulled := t.since.Add(c.does.Pull.orZero())
	if isSet(c.does.PullError) {
		l.failPull(c, pulled, t)
		return false
	}
	if due := pulled.Add(c.does.Start.orZero()); l.now.Before(due) {
		if t.fresh && l.now.Before(pulled) {
			l.emit(c, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Spec.Image))
		}
		t.pulling = true
		l.later(due)
		return false
	}
	return l.configured(c)
}

// failPull sets the state of a container whose image cannot be pulled. Attempts have the back-off
// of a kubelet: 10 s, and twice as much after each further one up to 5 minutes. The times of all of
// them follow from the first one.
func (l *look) failPull(c *container, first time.Time, t *turn) {
	if l.now.Before(first) {
		if t.fresh {
			l.emit(c, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Spec.Image))
		}
		t.pulling = true
		l.later(first)
		return
	}
	attempt, next := first, first.Add(minBackoff)
	for wait := minBackoff; !l.now.Before(next); {
		wait = min(2*wait, maxBackoff)
		attempt, next = next, next.Add(wait)
	}
	message := fmt.Sprintf("rpc error: code = NotFound desc = failed to pull and unpack image %q: failed to resolve reference %[1]q: %[1]s: not found", imageName(c.Spec.Image))
	if c.does.Message != nil {
		message = *c.does.Message
	}
	if shown := attempt.Add(showPullError); l.now.Before(shown) {
		l.later(shown)
		if c.Wait("ErrImagePull", message) {
			l.emit(c, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Spec.Image))
			l.emit(c, corev1.EventTypeWarning, "Failed", fmt.Sprintf("Failed to pull image %q: %s", c.Spec.Image, message))
			l.emit(c, corev1.EventTypeWarning, "Failed", "Error: ErrImagePull")
		}
		return
	}
	l.later(next)
	if c.Wait("ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: %s", c.Spec.Image, message)) {
		l.emit(c, corev1.EventTypeNormal, "BackOff", fmt.Sprintf("Back-off pulling image %q", c.Spec.Image))
		l.emit(c, corev1.EventTypeWarning, "Failed", "Error: ImagePullBackOff")
	}
}

// configured reports whether all is there from which the configuration of a container is made.
func (l *look) configured(c *container) bool {
	message := l.needs.config[c.Spec.Name]
	if message == "" {
		return true
	}
	if c.Wait("CreateContainerConfigError", message) {
		l.emit(c, corev1.EventTypeWarning, "Failed", "Error: "+message)
	}
	return false
}

// emitPulled notes the event about the image of a container that starts.
func (l *look) emitPulled(c *container) {
	took := c.does.Pull.orZero()
	again := c.Status.RestartCount > 0
	if c.Spec.ImagePullPolicy != corev1.PullAlways && (took == 0 || again) {
		l.emit(c, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Container image %q already present on machine and can be accessed by the pod", c.Spec.Image))
		return
	}
	if took == 0 || again {
		took = 0
		l.emit(c, corev1.EventTypeNormal, "Pulling", fmt.Sprintf("Pulling image %q", c.Spec.Image))
	}
	l.emit(c, corev1.EventTypeNormal, "Pulled", fmt.Sprintf("Successfully pulled image %q in %v (%v including waiting). Image size: %d bytes.", c.Spec.Image, took, took, imageSize))
}

// imageName returns the name by which a container runtime knows an image.
func imageName(image string) string {
	name := image
	first, _, path := strings.Cut(image, "/")
	switch {
	case !path:
		name = "docker.io/library/" + image
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + image
	}
	if strings.Contains(name, "@") || strings.Contains(name[strings.LastIndex(name, "/"):], ":") {
		return name
	}
	return name + ":latest"
}

// imageID returns the reference of an image by its digest.
func imageID(image string) string {
	name := imageName(image)
	if strings.Contains(name, "@") {
		return name
	}
	slash := strings.LastIndex(name, "/")
	base, _, _ := strings.Cut(name[slash:], ":")
	digest := sha256.Sum256([]byte(name))
	return name[:slash] + base + "@sha256:" + hex.EncodeToString(digest[:])
}

// containerID returns the id of a run of a container.
func containerID(p *corev1.Pod, name string, restarts int32) string {
	id := sha256.Sum256(fmt.Appendf(nil, "%s/%s/%d", p.UID, name, restarts))
	return "containerd://" + hex.EncodeToString(id[:])
}
