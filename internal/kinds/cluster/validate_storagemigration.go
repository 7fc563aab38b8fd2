package cluster

import (
	"strings"

	"github.com/kapok-dev/kapok/internal/kinds/rule"

	storagemigrationv1 "k8s.io/api/storagemigration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateStorageVersionMigration returns the errors of a migration, whose resource is immutable.
func validateStorageVersionMigration(m, old *storagemigrationv1.StorageVersionMigration) field.ErrorList {
	var all field.ErrorList
	path, target := field.NewPath("spec", "resource"), m.Spec.Resource
	if target.Resource == "" {
		all = append(all, field.Required(path.Child("resource"), "resource is required to be set"))
	} else if messages := validation.IsDNS1035Label(target.Resource); len(messages) > 0 {
		all = append(all, field.Invalid(path.Child("resource"), target.Resource, strings.Join(messages, ",")))
	}
	if target.Group != "" {
		if messages := validation.IsDNS1123Subdomain(target.Group); len(messages) > 0 {
			all = append(all, field.Invalid(path.Child("group"), target.Group, strings.Join(messages, ",")))
		}
	}
	if old != nil {
		all = append(all, rule.ValidateImmutable(m.Spec, old.Spec, field.NewPath("spec"))...)
	}
	return all
}

// validateStorageVersionMigrationStatus rejects changes after a migration has succeeded or failed.
func validateStorageVersionMigrationStatus(m, old *storagemigrationv1.StorageVersionMigration) field.ErrorList {
	var all field.ErrorList
	version, conditions := field.NewPath("status", "resourceVersion"), field.NewPath("status", "conditions")
	if rv := m.Status.ResourceVersion; rv != "" {
		if _, err := resourceversion.CompareResourceVersion(rv, rv); err != nil {
			all = append(all, field.Invalid(version, rv, err.Error()))
		}
	}
	all = append(all, metav1validation.ValidateConditions(m.Status.Conditions, conditions)...)
	if before := old.Status.ResourceVersion; before != "" && before != m.Status.ResourceVersion {
		all = append(all, field.Invalid(version, m.Status.ResourceVersion, "field is immutable"))
	}
	is := func(m *storagemigrationv1.StorageVersionMigration, kind storagemigrationv1.MigrationConditionType) bool {
		return meta.IsStatusConditionTrue(m.Status.Conditions, string(kind))
	}
	const succeeded, failed = storagemigrationv1.MigrationSucceeded, storagemigrationv1.MigrationFailed
	if is(m, succeeded) && is(m, failed) {
		all = append(all, field.Invalid(conditions, m.Status.Conditions, "Both success and failed conditions cannot be true at the same time"))
	}
	if is(old, succeeded) && !is(m, succeeded) {
		all = append(all, field.Invalid(conditions, m.Status.Conditions, "Success condition cannot be set to false once it is true"))
	}
	if is(old, failed) && !is(m, failed) {
		all = append(all, field.Invalid(conditions, m.Status.Conditions, "Failed condition cannot be set to false once it is true"))
	}
	return all
}
