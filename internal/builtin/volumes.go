package builtin

import (
	"time"

	"github.com/kapok-dev/kapok/internal/builtin/tables"
	"github.com/kapok-dev/kapok/internal/builtin/validation"
	"github.com/kapok-dev/kapok/internal/resource"

	corev1 "k8s.io/api/core/v1"
)

// volumes has the kinds of storage in the group "".
func volumes() []row {
	v1 := corev1.SchemeGroupVersion
	return []row{
		kind[corev1.PersistentVolume]{
			version:       v1,
			plural:        "persistentvolumes",
			shortNames:    []string{"pv"},
			clusterScoped: true,
			defaults:      fill[corev1.PersistentVolume],
			validate:      validation.PersistentVolume,
			status:        &status[corev1.PersistentVolume]{validate: validation.PersistentVolumeStatus, prepare: timePhase},
			prepareCreate: func(obj resource.Tree) {
				obj["status"] = resource.Tree{"phase": string(corev1.VolumePending), "lastPhaseTransitionTime": timestamp()}
			},
			table: tables.PersistentVolumes(),
			hooks: resource.Hooks{Warnings: warnOfPersistentVolume, DeleteReturnsObject: true},
		}.row(),
		kind[corev1.PersistentVolumeClaim]{
			version:    v1,
			plural:     "persistentvolumeclaims",
			shortNames: []string{"pvc"},
			defaults:   fill[corev1.PersistentVolumeClaim],
			validate:   validation.PersistentVolumeClaim,
			status: &status[corev1.PersistentVolumeClaim]{
				validate: validation.PersistentVolumeClaimStatus,
				// CSIVolumeHealth is off unless asked for.
				prepare: func(obj, old resource.Tree) { dropUnlessSet(obj, old, "status", "healthStatus") },
			},
			prepareCreate: func(obj resource.Tree) {
				put(obj, string(corev1.ClaimPending), "status", "phase")
				prepareDataSource(obj, nil)
			},
			prepareUpdate: prepareDataSource,
			table:         tables.PersistentVolumeClaims(),
			hooks:         resource.Hooks{Claim: allowExpansion, Warnings: warnOfClaim, DeleteReturnsObject: true},
		}.row(),
	}
}

// timePhase notes when the phase of a volume changes, unless who changes it does so.
func timePhase(obj, old resource.Tree) {
	path := []string{"status", "lastPhaseTransitionTime"}
	said, before := get(obj, path...), get(old, path...)
	switch changed := text(obj, "status", "phase") != text(old, "status", "phase"); {
	case !changed && said == nil:
		keep(obj, old, path...)
	case changed && (said == nil || said == before):
		put(obj, timestamp(), path...)
	}
}

func timestamp() string { return time.Now().UTC().Format(time.RFC3339) }

// prepareDataSource has dataSource and dataSourceRef say the same, as far as dataSource, which is the older one, can. What
// it cannot was ignored before there was dataSourceRef, and still is.
func prepareDataSource(obj, old resource.Tree) {
	// CrossNamespaceVolumeDataSource is off unless asked for.
	if text(obj, "spec", "dataSourceRef", "namespace") != "" && get(old, "spec", "dataSourceRef") == nil {
		drop(obj, "spec", "dataSourceRef")
	}
	source, ref := get(obj, "spec", "dataSource"), get(obj, "spec", "dataSourceRef")
	had := get(old, "spec", "dataSource") != nil || get(old, "spec", "dataSourceRef") != nil
	if ref == nil && source != nil && !had && !isVolumeOrSnapshot(obj) {
		drop(obj, "spec", "dataSource")
		return
	}
	switch {
	case source != nil && ref == nil:
		keepAs(obj, "dataSource", "dataSourceRef")
	case source == nil && ref != nil && text(obj, "spec", "dataSourceRef", "namespace") == "":
		keepAs(obj, "dataSourceRef", "dataSource")
	}
}

func isVolumeOrSnapshot(claim resource.Tree) bool {
	switch group := text(claim, "spec", "dataSource", "apiGroup"); text(claim, "spec", "dataSource", "kind") {
	case "PersistentVolumeClaim":
		return group == ""
	case "VolumeSnapshot":
		return group == "snapshot.storage.k8s.io"
	}
	return false
}

// keepAs copies what two references have in common.
func keepAs(claim resource.Tree, from, to string) {
	source, _ := get(claim, "spec", from).(resource.Tree)
	reference := resource.Tree{"kind": source["kind"], "name": source["name"]}
	// Go types write an empty group for no group.
	if group, ok := source["apiGroup"]; ok {
		reference["apiGroup"] = group
	}
	put(claim, reference, "spec", to)
}
