package resource

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// startGrace starts or shortens the grace period of an object whose kind has one. asked is that of
// the request, in seconds, or nil. graceful says that obj has to be stored, pending that the
// deletion goes on as it is.
func startGrace(kind *Deletion, obj Tree, asked *int64) (graceful, pending bool) {
	if kind.Grace == nil {
		return false, false
	}
	if asked != nil && *asked < 0 {
		asked = new(int64(1))
	}
	if metaString(obj, "deletionTimestamp") != "" {
		return shortenGrace(obj, asked)
	}
	seconds := kind.Grace(obj, asked)
	m := metadata(obj)
	m["deletionTimestamp"] = timestamp(now().Add(time.Duration(seconds) * time.Second))
	m["deletionGracePeriodSeconds"] = seconds
	bumpGeneration(obj)
	return true, false
}

// shortenGrace is startGrace for an object that is deleting already: the grace period can only
// become shorter.
func shortenGrace(obj Tree, asked *int64) (graceful, pending bool) {
	had, ok := metaInt(obj, "deletionGracePeriodSeconds")
	if !ok || had == 0 {
		return false, false
	}
	if asked == nil || *asked >= had {
		return false, true
	}
	seconds := *asked
	at := timeOf(obj, "deletionTimestamp").Add(time.Duration(seconds-had) * time.Second)
	if t := now(); at.Before(t) {
		at = t
		if seconds != 0 {
			seconds = 1
		}
	}
	m := metadata(obj)
	m["deletionTimestamp"], m["deletionGracePeriodSeconds"] = timestamp(at), seconds
	return true, false
}

func timeOf(obj Tree, key string) time.Time {
	t, err := time.Parse(time.RFC3339, metaString(obj, key))
	if err != nil {
		return time.Time{}
	}
	return t
}

// markDeleting marks an object that is deleted without a grace period.
func markDeleting(obj Tree, at time.Time) {
	m := metadata(obj)
	if metaString(obj, "deletionTimestamp") == "" {
		bumpGeneration(obj)
		m["deletionTimestamp"] = timestamp(at)
	} else if timeOf(obj, "deletionTimestamp").After(at) {
		m["deletionTimestamp"] = timestamp(at)
	}
	m["deletionGracePeriodSeconds"] = int64(0)
}

func bumpGeneration(obj Tree) {
	if generation, _ := metaInt(obj, "generation"); generation > 0 {
		setGeneration(obj, generation+1)
	}
}

// finishesDeletion reports whether an update removes the last thing that the deletion of the object
// waits for.
func finishesDeletion(d *Definition, obj, old Tree) bool {
	if metaString(old, "deletionTimestamp") == "" || len(finalizersOf(obj)) > 0 {
		return false
	}
	if grace, ok := metaInt(old, "deletionGracePeriodSeconds"); ok && grace != 0 {
		return false
	}
	return !d.Deletion.Finalization.waits(obj)
}

// propagationFinalizers returns the finalizers of an object that is deleted. The one that orphans
// its dependents, and the one that has them deleted first, are added or removed as the request
// says; if it does not, as the object says; and if it does not either, as the kind does.
func propagationFinalizers(kind *Deletion, obj Tree, options *metav1.DeleteOptions) []any {
	has := finalizersOf(obj)
	orphan, foreground := false, false
	switch policy := options.PropagationPolicy; {
	case options.OrphanDependents != nil:
		orphan = *options.OrphanDependents
	case policy != nil:
		orphan = *policy == metav1.DeletePropagationOrphan
		foreground = *policy == metav1.DeletePropagationForeground
	case slices.Contains(has, any(metav1.FinalizerOrphanDependents)):
		orphan = true
	case slices.Contains(has, any(metav1.FinalizerDeleteDependents)):
		foreground = true
	default:
		orphan = kind.OrphanByDefault
	}
	finalizers := slices.DeleteFunc(slices.Clone(has), func(f any) bool {
		return f == metav1.FinalizerOrphanDependents && !orphan || f == metav1.FinalizerDeleteDependents && !foreground
	})
	for name, wanted := range map[string]bool{metav1.FinalizerOrphanDependents: orphan, metav1.FinalizerDeleteDependents: foreground} {
		if wanted && !slices.Contains(finalizers, any(name)) {
			finalizers = append(finalizers, name)
		}
	}
	return finalizers
}

func setFinalizers(obj Tree, finalizers []any) {
	if len(finalizers) == 0 {
		delete(metadata(obj), "finalizers")
		return
	}
	metadata(obj)["finalizers"] = finalizers
}

func finalizersOf(obj Tree) []any {
	m, _ := obj["metadata"].(map[string]any)
	list, _ := m["finalizers"].([]any)
	return list
}
