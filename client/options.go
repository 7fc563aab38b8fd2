package client

import (
	"errors"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// A GetOption is an option of Get.
type GetOption interface{ ApplyToGet(*GetOptions) }

// A ListOption is an option of List and Watch.
type ListOption interface{ ApplyToList(*ListOptions) }

// A WriteOption is an option of Create, Update, Patch and Apply, of objects and of subresources.
type WriteOption interface{ ApplyToWrite(*WriteOptions) }

// A DeleteOption is an option of Delete.
type DeleteOption interface{ ApplyToDelete(*DeleteOptions) }

// A DeleteAllOfOption is an option of DeleteAllOf: it selects objects or configures their deletion.
type DeleteAllOfOption interface{ ApplyToDeleteAllOf(*DeleteAllOfOptions) }

// All verbs that write take the same options; the names are those that users of Kubernetes' clients
// know.
type (
	CreateOption = WriteOption
	UpdateOption = WriteOption
	PatchOption  = WriteOption
	ApplyOption  = WriteOption

	SubResourceGetOption    = GetOption
	SubResourceCreateOption = WriteOption
	SubResourceUpdateOption = WriteOption
	SubResourcePatchOption  = WriteOption
	SubResourceApplyOption  = WriteOption

	CreateOptions = WriteOptions
	UpdateOptions = WriteOptions
	PatchOptions  = WriteOptions
	ApplyOptions  = WriteOptions
)

// GetOptions are all options of Get. They are an option themselves.
type GetOptions struct {
	// Stale disables the wait of a cached read for the client's own writes.
	Stale bool
	// UnsafeDisableDeepCopy is the option of the same name.
	UnsafeDisableDeepCopy *bool
	// Raw are options that have no field here. They are sent unchanged.
	Raw *metav1.GetOptions
}

// ListOptions are all options of List and Watch. They are an option themselves.
type ListOptions struct {
	// Namespace restricts the list to one namespace. "": all.
	Namespace string
	// LabelSelector and FieldSelector restrict the list. nil: no restriction. A cache supports only
	// fields with an index.
	LabelSelector labels.Selector
	FieldSelector fields.Selector
	// Limit is the maximum number of items, after which the list has a continue token. 0: no limit.
	// Caches return no token.
	Limit int64
	// Continue is the token of the page before.
	Continue string
	// Stale disables the wait of a cached read for the client's own writes.
	Stale bool
	// UnsafeDisableDeepCopy is the option of the same name.
	UnsafeDisableDeepCopy *bool
	// Raw are options that have no field here. They are sent unchanged.
	Raw *metav1.ListOptions

	err error // of an invalid option
}

// WriteOptions are all options of the verbs that write. They are an option themselves.
type WriteOptions struct {
	// DryRun holds metav1.DryRunAll for a request that changes nothing.
	DryRun []string
	// FieldManager is the owner of the fields that the write sets. Default: that of the client.
	FieldManager string
	// FieldValidation configures how the server handles unknown and duplicate fields:
	// metav1.FieldValidationIgnore, -Warn or -Strict. Default: that of the client, or that of the
	// server. An apply is always strict.
	FieldValidation string
	// Force takes fields from other managers in a server-side apply. Other verbs do not have it.
	Force *bool
	// SubResourceBody is sent instead of the object in an update or patch of a subresource.
	SubResourceBody Object
	// Stale excludes this write from those that later cached reads wait for.
	Stale bool
}

// DeleteOptions are all options of Delete. They are an option themselves.
type DeleteOptions struct {
	// GracePeriodSeconds overrides the grace period of the object in seconds. 0: delete
	// immediately.
	GracePeriodSeconds *int64
	// Preconditions must hold for the object; otherwise the deletion is a conflict.
	Preconditions *metav1.Preconditions
	// PropagationPolicy selects whether dependents are deleted in the background, in the foreground,
	// or orphaned. Default: that of the kind.
	PropagationPolicy *metav1.DeletionPropagation
	// DryRun holds metav1.DryRunAll for a request that changes nothing.
	DryRun []string
	// Stale excludes this deletion from those that later cached reads wait for.
	Stale bool
}

// DeleteAllOfOptions are all options of DeleteAllOf. They are an option themselves.
type DeleteAllOfOptions struct {
	ListOptions
	DeleteOptions
}

// InNamespace restricts a list to a namespace.
type InNamespace string

// MatchingLabels restricts a list to objects that have all of these labels.
type MatchingLabels map[string]string

// HasLabels restricts a list to objects that have labels of these names.
type HasLabels []string

// MatchingLabelsSelector restricts a list to objects whose labels a selector matches. A nil
// Selector matches all.
type MatchingLabelsSelector struct{ labels.Selector }

// MatchingFields restricts a list to objects with these values of fields. A cache must have an
// index of the field.
type MatchingFields fields.Set

// MatchingFieldsSelector restricts a list to objects whose fields a selector matches.
type MatchingFieldsSelector struct{ fields.Selector }

// Limit is the greatest number of items of a list.
type Limit int64

// Continue asks for the next page of a list.
type Continue string

// FieldOwner is the owner of the fields that the write sets.
type FieldOwner string

// FieldValidation configures how the server handles unknown and duplicate fields of the write.
type FieldValidation string

// GracePeriodSeconds is the time in seconds that the object has to terminate.
type GracePeriodSeconds int64

// Preconditions must hold for the object that is deleted; otherwise the deletion is a conflict.
type Preconditions metav1.Preconditions

// PropagationPolicy selects how the garbage collector handles the dependents of a deleted object.
type PropagationPolicy metav1.DeletionPropagation

type (
	dryRunAll      struct{}
	forceOwnership struct{}
	stale          struct{}
	subBody        struct{ Object }
)

var (
	// DryRunAll lets the server process a write without storing the change.
	DryRunAll = dryRunAll{}
	// ForceOwnership takes fields from other managers in a server-side apply.
	ForceOwnership = forceOwnership{}
	// Stale disables the wait of a read for the client's own writes, or excludes a write from those
	// that reads wait for.
	Stale = stale{}
	// DisableReadYourWritesConsistency is Stale, under the name that controller-runtime has for it.
	DisableReadYourWritesConsistency = Stale
)

// UnsafeDisableDeepCopyOption is the type of UnsafeDisableDeepCopy.
type UnsafeDisableDeepCopyOption bool

// UnsafeDisableDeepCopy lets a read from a cache of Go objects (cache.Decoded) return objects that
// share maps, slices and pointers with the cache: the caller must not change them. It has no effect
// on other caches and on the server.
const UnsafeDisableDeepCopy = UnsafeDisableDeepCopyOption(true)

// ApplyToGet implements [GetOption].
func (u UnsafeDisableDeepCopyOption) ApplyToGet(o *GetOptions) {
	o.UnsafeDisableDeepCopy = new(bool(u))
}

// ApplyToList implements [ListOption].
func (u UnsafeDisableDeepCopyOption) ApplyToList(o *ListOptions) {
	o.UnsafeDisableDeepCopy = new(bool(u))
}

// WithSubResourceBody sends body to a subresource of an object, rather than the object: as a Scale.
func WithSubResourceBody(body Object) WriteOption { return subBody{body} }

// ApplyToGet implements [GetOption].
func (o *GetOptions) ApplyToGet(to *GetOptions) {
	to.Stale = to.Stale || o.Stale
	if o.UnsafeDisableDeepCopy != nil {
		to.UnsafeDisableDeepCopy = o.UnsafeDisableDeepCopy
	}
	if o.Raw != nil {
		to.Raw = o.Raw
	}
}

// ApplyToList implements [ListOption].
func (o *ListOptions) ApplyToList(to *ListOptions) {
	if o.Namespace != "" {
		to.Namespace = o.Namespace
	}
	if o.LabelSelector != nil {
		to.LabelSelector = o.LabelSelector
	}
	if o.FieldSelector != nil {
		to.FieldSelector = o.FieldSelector
	}
	if o.Limit > 0 {
		to.Limit = o.Limit
	}
	if o.Continue != "" {
		to.Continue = o.Continue
	}
	if o.Raw != nil {
		to.Raw = o.Raw
	}
	if o.UnsafeDisableDeepCopy != nil {
		to.UnsafeDisableDeepCopy = o.UnsafeDisableDeepCopy
	}
	to.Stale = to.Stale || o.Stale
	to.err = errors.Join(to.err, o.err)
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (o *ListOptions) ApplyToDeleteAllOf(to *DeleteAllOfOptions) { o.ApplyToList(&to.ListOptions) }

// ApplyToWrite implements [WriteOption].
func (o *WriteOptions) ApplyToWrite(to *WriteOptions) {
	if o.DryRun != nil {
		to.DryRun = o.DryRun
	}
	if o.FieldManager != "" {
		to.FieldManager = o.FieldManager
	}
	if o.FieldValidation != "" {
		to.FieldValidation = o.FieldValidation
	}
	if o.Force != nil {
		to.Force = o.Force
	}
	if o.SubResourceBody != nil {
		to.SubResourceBody = o.SubResourceBody
	}
	to.Stale = to.Stale || o.Stale
}

// ApplyToDelete implements [DeleteOption].
func (o *DeleteOptions) ApplyToDelete(to *DeleteOptions) {
	if o.GracePeriodSeconds != nil {
		to.GracePeriodSeconds = o.GracePeriodSeconds
	}
	if o.Preconditions != nil {
		to.Preconditions = o.Preconditions
	}
	if o.PropagationPolicy != nil {
		to.PropagationPolicy = o.PropagationPolicy
	}
	if o.DryRun != nil {
		to.DryRun = o.DryRun
	}
	to.Stale = to.Stale || o.Stale
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (o *DeleteOptions) ApplyToDeleteAllOf(to *DeleteAllOfOptions) {
	o.ApplyToDelete(&to.DeleteOptions)
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (o *DeleteAllOfOptions) ApplyToDeleteAllOf(to *DeleteAllOfOptions) {
	o.ApplyToList(&to.ListOptions)
	o.ApplyToDelete(&to.DeleteOptions)
}

// ApplyToList implements [ListOption].
func (n InNamespace) ApplyToList(o *ListOptions) { o.Namespace = string(n) }

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (n InNamespace) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { o.Namespace = string(n) }

// ApplyToList implements [ListOption].
func (l Limit) ApplyToList(o *ListOptions) { o.Limit = int64(l) }

// ApplyToList implements [ListOption].
func (c Continue) ApplyToList(o *ListOptions) { o.Continue = string(c) }

// ApplyToList implements [ListOption].
func (m MatchingLabels) ApplyToList(o *ListOptions) {
	for name, value := range m {
		o.selectLabel(name, selection.Equals, value)
	}
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (m MatchingLabels) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { m.ApplyToList(&o.ListOptions) }

// ApplyToList implements [ListOption].
func (names HasLabels) ApplyToList(o *ListOptions) {
	for _, name := range names {
		o.selectLabel(name, selection.Exists)
	}
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (names HasLabels) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { names.ApplyToList(&o.ListOptions) }

// selectLabel narrows the selector. An invalid label is recorded as an error: it must not widen
// what is listed or deleted.
func (o *ListOptions) selectLabel(name string, op selection.Operator, values ...string) {
	r, err := labels.NewRequirement(name, op, values)
	if err != nil {
		o.err = errors.Join(o.err, fmt.Errorf("label selector: label %q: %w", name, err))
		return
	}
	if o.LabelSelector == nil {
		o.LabelSelector = labels.NewSelector()
	}
	o.LabelSelector = o.LabelSelector.Add(*r)
}

// Err returns the error of the options. Implementations of List call it first.
func (o *ListOptions) Err() error { return o.err }

// ApplyToList implements [ListOption].
func (m MatchingLabelsSelector) ApplyToList(o *ListOptions) {
	if m.Selector == nil {
		m.Selector = labels.Everything()
	}
	o.LabelSelector = m.Selector
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (m MatchingLabelsSelector) ApplyToDeleteAllOf(o *DeleteAllOfOptions) {
	m.ApplyToList(&o.ListOptions)
}

// ApplyToList implements [ListOption].
func (m MatchingFields) ApplyToList(o *ListOptions) { o.FieldSelector = fields.Set(m).AsSelector() }

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (m MatchingFields) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { m.ApplyToList(&o.ListOptions) }

// ApplyToList implements [ListOption].
func (m MatchingFieldsSelector) ApplyToList(o *ListOptions) {
	if m.Selector == nil {
		m.Selector = fields.Everything()
	}
	o.FieldSelector = m.Selector
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (m MatchingFieldsSelector) ApplyToDeleteAllOf(o *DeleteAllOfOptions) {
	m.ApplyToList(&o.ListOptions)
}

// ApplyToWrite implements [WriteOption].
func (f FieldOwner) ApplyToWrite(o *WriteOptions) { o.FieldManager = string(f) }

// ApplyToWrite implements [WriteOption].
func (f FieldValidation) ApplyToWrite(o *WriteOptions) { o.FieldValidation = string(f) }
func (forceOwnership) ApplyToWrite(o *WriteOptions)    { o.Force = new(true) }
func (b subBody) ApplyToWrite(o *WriteOptions)         { o.SubResourceBody = b.Object }

func (dryRunAll) ApplyToWrite(o *WriteOptions)             { o.DryRun = []string{metav1.DryRunAll} }
func (dryRunAll) ApplyToDelete(o *DeleteOptions)           { o.DryRun = []string{metav1.DryRunAll} }
func (dryRunAll) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { o.DryRun = []string{metav1.DryRunAll} }

func (stale) ApplyToGet(o *GetOptions)                 { o.Stale = true }
func (stale) ApplyToList(o *ListOptions)               { o.Stale = true }
func (stale) ApplyToWrite(o *WriteOptions)             { o.Stale = true }
func (stale) ApplyToDelete(o *DeleteOptions)           { o.Stale = true }
func (stale) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { o.DeleteOptions.Stale = true }

// ApplyToDelete implements [DeleteOption].
func (s GracePeriodSeconds) ApplyToDelete(o *DeleteOptions) { o.GracePeriodSeconds = new(int64(s)) }

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (s GracePeriodSeconds) ApplyToDeleteAllOf(o *DeleteAllOfOptions) {
	s.ApplyToDelete(&o.DeleteOptions)
}

// ApplyToDelete implements [DeleteOption].
func (p Preconditions) ApplyToDelete(o *DeleteOptions) {
	o.Preconditions = new(metav1.Preconditions(p))
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (p Preconditions) ApplyToDeleteAllOf(o *DeleteAllOfOptions) { p.ApplyToDelete(&o.DeleteOptions) }

// ApplyToDelete implements [DeleteOption].
func (p PropagationPolicy) ApplyToDelete(o *DeleteOptions) {
	o.PropagationPolicy = new(metav1.DeletionPropagation(p))
}

// ApplyToDeleteAllOf implements [DeleteAllOfOption].
func (p PropagationPolicy) ApplyToDeleteAllOf(o *DeleteAllOfOptions) {
	p.ApplyToDelete(&o.DeleteOptions)
}

// ApplyOptions adds options, and returns o.
func (o *GetOptions) ApplyOptions(opts []GetOption) *GetOptions {
	for _, opt := range opts {
		opt.ApplyToGet(o)
	}
	return o
}

// ApplyOptions adds options, and returns o.
func (o *ListOptions) ApplyOptions(opts []ListOption) *ListOptions {
	for _, opt := range opts {
		opt.ApplyToList(o)
	}
	return o
}

// ApplyOptions adds options, and returns o.
func (o *WriteOptions) ApplyOptions(opts []WriteOption) *WriteOptions {
	for _, opt := range opts {
		opt.ApplyToWrite(o)
	}
	return o
}

// ApplyOptions adds options, and returns o.
func (o *DeleteOptions) ApplyOptions(opts []DeleteOption) *DeleteOptions {
	for _, opt := range opts {
		opt.ApplyToDelete(o)
	}
	return o
}

// ApplyOptions adds options, and returns o.
func (o *DeleteAllOfOptions) ApplyOptions(opts []DeleteAllOfOption) *DeleteAllOfOptions {
	for _, opt := range opts {
		opt.ApplyToDeleteAllOf(o)
	}
	return o
}

// AsGetOptions are the options as the server takes them.
func (o *GetOptions) AsGetOptions() *metav1.GetOptions {
	if o.Raw != nil {
		return o.Raw.DeepCopy()
	}
	return &metav1.GetOptions{}
}

// AsListOptions are the options as the server takes them.
func (o *ListOptions) AsListOptions() *metav1.ListOptions {
	raw := &metav1.ListOptions{}
	if o.Raw != nil {
		raw = o.Raw.DeepCopy()
	}
	if o.LabelSelector != nil {
		raw.LabelSelector = o.LabelSelector.String()
	}
	if o.FieldSelector != nil {
		raw.FieldSelector = o.FieldSelector.String()
	}
	if o.Limit > 0 {
		raw.Limit = o.Limit
	}
	if o.Continue != "" {
		raw.Continue = o.Continue
	}
	return raw
}

// AsCreateOptions are the options as the server takes them.
func (o *WriteOptions) AsCreateOptions() *metav1.CreateOptions {
	return &metav1.CreateOptions{DryRun: slices.Clone(o.DryRun), FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// AsUpdateOptions are the options as the server takes them.
func (o *WriteOptions) AsUpdateOptions() *metav1.UpdateOptions {
	return &metav1.UpdateOptions{DryRun: slices.Clone(o.DryRun), FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

// AsPatchOptions are the options as the server takes them.
func (o *WriteOptions) AsPatchOptions() *metav1.PatchOptions {
	return &metav1.PatchOptions{DryRun: slices.Clone(o.DryRun), FieldManager: o.FieldManager, FieldValidation: o.FieldValidation, Force: o.Force}
}

// AsDeleteOptions are the options as the server takes them.
func (o *DeleteOptions) AsDeleteOptions() *metav1.DeleteOptions {
	return &metav1.DeleteOptions{GracePeriodSeconds: o.GracePeriodSeconds, Preconditions: o.Preconditions,
		PropagationPolicy: o.PropagationPolicy, DryRun: slices.Clone(o.DryRun)}
}
