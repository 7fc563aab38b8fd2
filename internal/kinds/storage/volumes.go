package storage

import (
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// Volumes returns persistent volumes and claims, of the core group.
func Volumes() []kind.Row {
	v1 := corev1.SchemeGroupVersion
	return []kind.Row{
		kind.Kind[*corev1.PersistentVolume]{
			Version:       v1,
			Plural:        "persistentvolumes",
			ShortNames:    []string{"pv"},
			ClusterScoped: true,
			Filled:        true,
			Validate:      validatePersistentVolume,
			Status:        &kind.Status[*corev1.PersistentVolume]{Validate: validatePersistentVolumeStatus, Prepare: timePhase},
			PrepareCreate: func(obj resource.Tree) {
				obj["status"] = resource.Tree{"phase": string(corev1.VolumePending), "lastPhaseTransitionTime": timestamp()}
			},
			Table:    persistentVolumesTable(),
			Strategy: resource.Strategy{Warnings: warnOfPersistentVolume},
			Deletion: resource.Deletion{ReturnsObject: true},
		}.Row(),
		kind.Kind[*corev1.PersistentVolumeClaim]{
			Version:    v1,
			Plural:     "persistentvolumeclaims",
			ShortNames: []string{"pvc"},
			Filled:     true,
			Validate:   validatePersistentVolumeClaim,
			Status: &kind.Status[*corev1.PersistentVolumeClaim]{
				Validate: validatePersistentVolumeClaimStatus,
				// CSIVolumeHealth is off by default.
				Prepare: func(obj, old resource.Tree) { kind.DropUnlessSet(obj, old, "status", "healthStatus") },
			},
			PrepareCreate: func(obj resource.Tree) {
				kind.Put(obj, string(corev1.ClaimPending), "status", "phase")
				PrepareDataSource(obj, nil)
			},
			PrepareUpdate: PrepareDataSource,
			Table:         persistentVolumeClaimsTable(),
			Strategy:      resource.Strategy{Claim: allowExpansion, Warnings: warnOfClaim},
			Deletion:      resource.Deletion{ReturnsObject: true},
		}.Row(),
	}
}

// timePhase sets the time of a phase change, unless the client does.
func timePhase(obj, old resource.Tree) {
	path := []string{"status", "lastPhaseTransitionTime"}
	said, before := kind.Get(obj, path...), kind.Get(old, path...)
	switch changed := kind.Text(obj, "status", "phase") != kind.Text(old, "status", "phase"); {
	case !changed && said == nil:
		kind.Keep(obj, old, path...)
	case changed && (said == nil || said == before):
		kind.Put(obj, timestamp(), path...)
	}
}

func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }

// PrepareDataSource makes dataSource and dataSourceRef agree, as far as dataSource, the older
// field, can. Sources that dataSource does not support were ignored before dataSourceRef existed,
// and still are.
func PrepareDataSource(obj, old resource.Tree) {
	// CrossNamespaceVolumeDataSource is off by default.
	if kind.Text(obj, "spec", "dataSourceRef", "namespace") != "" && kind.Get(old, "spec", "dataSourceRef") == nil {
		kind.Drop(obj, "spec", "dataSourceRef")
	}
	source, ref := kind.Get(obj, "spec", "dataSource"), kind.Get(obj, "spec", "dataSourceRef")
	had := kind.Get(old, "spec", "dataSource") != nil || kind.Get(old, "spec", "dataSourceRef") != nil
	if ref == nil && source != nil && !had && !isVolumeOrSnapshot(obj) {
		kind.Drop(obj, "spec", "dataSource")
		return
	}
	switch {
	case source != nil && ref == nil:
		keepAs(obj, "dataSource", "dataSourceRef")
	case source == nil && ref != nil && kind.Text(obj, "spec", "dataSourceRef", "namespace") == "":
		keepAs(obj, "dataSourceRef", "dataSource")
	}
}

func isVolumeOrSnapshot(claim resource.Tree) bool {
	switch group := kind.Text(claim, "spec", "dataSource", "apiGroup"); kind.Text(claim, "spec", "dataSource", "kind") {
	case "PersistentVolumeClaim":
		return group == ""
	case "VolumeSnapshot":
		return group == "snapshot.storage.k8s.io"
	}
	return false
}

// keepAs copies the fields that both references have.
func keepAs(claim resource.Tree, from, to string) {
	source, _ := kind.Get(claim, "spec", from).(resource.Tree)
	reference := resource.Tree{"kind": source["kind"], "name": source["name"]}
	// The Go type encodes a missing group as an empty one.
	if group, ok := source["apiGroup"]; ok {
		reference["apiGroup"] = group
	}
	kind.Put(claim, reference, "spec", to)
}
