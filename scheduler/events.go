package scheduler

import (
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/scheduler/framework"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An interest is the events after which pods of a profile are retried that a plugin has rejected.
type interest struct {
	scheduler string // "" is all
	plugin    framework.Plugin
	name      string // of the plugin
	actions   framework.ActionType
	hint      framework.QueueingHintFn // nil lets all pass
}

// interests are interests by the kinds of objects.
type interests map[schema.GroupVersionKind][]interest

// general are the kinds whose events count for plugins that do not register any, and for extenders.
var general = []client.Object{
	&corev1.Pod{}, &corev1.Node{}, &corev1.PersistentVolume{}, &corev1.PersistentVolumeClaim{}, &storagev1.StorageClass{}, &storagev1.CSINode{}, &storagev1.CSIDriver{},
	&storagev1.CSIStorageCapacity{}, &storagev1.VolumeAttachment{}, &resourcev1.ResourceClaim{}, &resourcev1.ResourceSlice{}, &resourcev1.DeviceClass{},
}

// interestsOf returns the interests of plugins of the program and of extenders, and the kinds of
// objects that they name.
func (s *scheduler) interestsOf() (interests, []client.Object, error) {
	var all []struct {
		interest
		kind client.Object
	}
	add := func(i interest, kind client.Object) {
		all = append(all, struct {
			interest
			kind client.Object
		}{i, kind})
	}
	if len(s.extenders) > 0 {
		for _, kind := range general {
			add(interest{name: ofExtenders, actions: framework.All}, kind)
		}
	}
	for scheduler, own := range s.plugins {
		for _, p := range own.All {
			events, registers := []framework.ClusterEventWithHint(nil), false
			if e, is := p.(framework.EnqueueExtensions); is {
				registers = true
				if st := s.call(p, "EventsToRegister", func() *framework.Status {
					events = e.EventsToRegister()
					return nil
				}); !st.IsSuccess() {
					return nil, nil, fmt.Errorf("events of plugin %s: %w", p.Name(), st.AsError())
				}
			}
			if !registers {
				for _, kind := range general {
					events = append(events, framework.ClusterEventWithHint{Resource: kind, Actions: framework.All})
				}
			}
			for _, e := range events {
				if e.Resource == nil {
					return nil, nil, fmt.Errorf("events of plugin %s: no Resource", p.Name())
				}
				add(interest{scheduler, p, p.Name(), e.Actions, e.QueueingHint}, e.Resource)
			}
		}
	}
	by := interests{}
	var kinds []client.Object
	for _, i := range all {
		gvk, err := s.client.GroupVersionKindFor(i.kind)
		if err != nil {
			return nil, nil, fmt.Errorf("events of plugin %s: %w", i.name, err)
		}
		if by[gvk] == nil {
			kinds = append(kinds, i.kind)
		}
		by[gvk] = append(by[gvk], i.interest)
	}
	return by, kinds, nil
}

// withInterests adds the events that plugins of the program and extenders are interested in to the
// objects that the scheduler watches. Pods are retried after an object was noted.
func (s *scheduler) withInterests(all []watched) ([]watched, error) {
	by, kinds, err := s.interestsOf()
	if err != nil {
		return nil, err
	}
	s.interests = by
	for _, kind := range kinds {
		gvk, err := s.client.GroupVersionKindFor(kind)
		if err != nil {
			return nil, err
		}
		at := slices.IndexFunc(all, func(w watched) bool {
			other, err := s.client.GroupVersionKindFor(w.kind)
			return err == nil && other == gvk
		})
		if at < 0 {
			if _, err := s.client.RESTMapper().RESTMapping(gvk.GroupKind(), gvk.Version); err != nil {
				return nil, fmt.Errorf("events of plugin %s: %w", by[gvk][0].name, err)
			}
			all = append(all, watched{kind, handler{func(_, _ client.Object) {}, func(client.Object) {}}})
			at = len(all) - 1
		}
		usual := all[at].handler
		all[at].handler = handler{
			func(old, o client.Object) {
				usual.set(old, o)
				s.noticed(gvk, old, o)
			},
			func(o client.Object) {
				usual.remove(o)
				s.noticed(gvk, o, nil)
			},
		}
	}
	return all, nil
}

// noticed retries pods that plugins of the program or extenders have rejected, after an event.
func (s *scheduler) noticed(kind schema.GroupVersionKind, before, after client.Object) {
	of := s.interests[kind]
	if len(of) == 0 {
		return
	}
	action := framework.Update
	switch {
	case before == nil:
		action = framework.Add
	case after == nil:
		action = framework.Delete
	case sameForPlugins(before, after):
		return
	}
	if p, is := after.(*corev1.Pod); is && ended(p) { // it needs no node any more
		if action == framework.Add || ended(before.(*corev1.Pod)) {
			return
		}
		action, after = framework.Delete, nil
	}
	s.queue.help(time.Now(), func(n *pending) bool {
		return slices.ContainsFunc(of, func(i interest) bool {
			return i.actions&action != 0 && (i.scheduler == "" || i.scheduler == n.pod.Spec.SchedulerName) && slices.Contains(n.refused, i.name) &&
				s.helps(i, n.pod, before, after)
		})
	})
}

// helps calls the hint of an interest. One that panics lets the event pass.
func (s *scheduler) helps(i interest, p *corev1.Pod, before, after client.Object) bool {
	if i.hint == nil {
		return true
	}
	var hint framework.QueueingHint
	st := s.call(i.plugin, "QueueingHint", func() *framework.Status {
		hint = i.hint(p, before, after)
		return nil
	})
	return !st.IsSuccess() || hint == framework.Queue
}

// sameForPlugins reports whether an update is not an event. Updates of nodes count if they change
// metadata, spec, resources, images, declared features or the status of a condition; those of pods
// if they change metadata, spec or the names of generated claims, or end the pod.
func sameForPlugins(before, after client.Object) bool {
	switch before := before.(type) {
	case *corev1.Node:
		after := after.(*corev1.Node)
		return sameNode(before, after) && equality.Semantic.DeepEqual(before.Annotations, after.Annotations) &&
			equality.Semantic.DeepEqual(before.Spec, after.Spec) &&
			slices.EqualFunc(before.Status.Conditions, after.Status.Conditions, func(a, b corev1.NodeCondition) bool { return a.Type == b.Type && a.Status == b.Status })
	case *corev1.Pod:
		after := after.(*corev1.Pod)
		return equality.Semantic.DeepEqual(before.Labels, after.Labels) && equality.Semantic.DeepEqual(before.Annotations, after.Annotations) &&
			equality.Semantic.DeepEqual(before.Spec, after.Spec) && before.DeletionTimestamp.Equal(after.DeletionTimestamp) && ended(before) == ended(after) &&
			equality.Semantic.DeepEqual(before.Status.ResourceClaimStatuses, after.Status.ResourceClaimStatuses)
	}
	return before.GetResourceVersion() == after.GetResourceVersion()
}
