package client

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
)

// WithFieldOwner returns a client that sets the field manager of writes that do not set one.
func WithFieldOwner(c Client, owner string) Client {
	return &adding{Client: c, first: []WriteOption{FieldOwner(owner)}}
}

// WithFieldValidation returns a client that sets the field validation of writes that do not set
// one.
func WithFieldValidation(c Client, validation FieldValidation) Client {
	return &adding{Client: c, first: []WriteOption{validation}}
}

// NewDryRunClient returns a client whose writes are dry runs.
func NewDryRunClient(c Client) Client {
	return &adding{Client: c, last: []WriteOption{DryRunAll}, deletes: []DeleteOption{DryRunAll}, deletesAll: []DeleteAllOfOption{DryRunAll}}
}

// adding is a client that adds options to writes: some before those of the caller, which can
// override them, and some after.
type adding struct {
	Client
	first, last []WriteOption
	deletes     []DeleteOption      // after those of the caller
	deletesAll  []DeleteAllOfOption // after those of the caller
}

func (a *adding) options(opts []WriteOption) []WriteOption {
	return slices.Concat(a.first, opts, a.last)
}

func (a *adding) Create(ctx context.Context, obj Object, opts ...CreateOption) error {
	return a.Client.Create(ctx, obj, a.options(opts)...)
}

func (a *adding) Update(ctx context.Context, obj Object, opts ...UpdateOption) error {
	return a.Client.Update(ctx, obj, a.options(opts)...)
}

func (a *adding) Patch(ctx context.Context, obj Object, patch Patch, opts ...PatchOption) error {
	return a.Client.Patch(ctx, obj, patch, a.options(opts)...)
}

func (a *adding) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...ApplyOption) error {
	return a.Client.Apply(ctx, obj, a.options(opts)...)
}

func (a *adding) Delete(ctx context.Context, obj Object, opts ...DeleteOption) error {
	return a.Client.Delete(ctx, obj, slices.Concat(opts, a.deletes)...)
}

func (a *adding) DeleteAllOf(ctx context.Context, obj Object, opts ...DeleteAllOfOption) error {
	return a.Client.DeleteAllOf(ctx, obj, slices.Concat(opts, a.deletesAll)...)
}

func (a *adding) Status() StatusWriter { return a.SubResource("status") }

func (a *adding) SubResource(name string) SubResourceClient {
	return addingSub{a.Client.SubResource(name), a}
}

type addingSub struct {
	SubResourceClient
	to *adding
}

func (s addingSub) Create(ctx context.Context, obj, sub Object, opts ...SubResourceCreateOption) error {
	return s.SubResourceClient.Create(ctx, obj, sub, s.to.options(opts)...)
}

func (s addingSub) Update(ctx context.Context, obj Object, opts ...SubResourceUpdateOption) error {
	return s.SubResourceClient.Update(ctx, obj, s.to.options(opts)...)
}

func (s addingSub) Patch(ctx context.Context, obj Object, patch Patch, opts ...SubResourcePatchOption) error {
	return s.SubResourceClient.Patch(ctx, obj, patch, s.to.options(opts)...)
}

func (s addingSub) Apply(ctx context.Context, obj runtime.ApplyConfiguration, opts ...SubResourceApplyOption) error {
	return s.SubResourceClient.Apply(ctx, obj, s.to.options(opts)...)
}
