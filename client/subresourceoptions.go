package client

// Options of subresources under the names of controller-runtime. They are options themselves.
type (
	SubResourceGetOptions    = GetOptions
	SubResourceCreateOptions struct{ CreateOptions }
	SubResourceApplyOptions  struct{ ApplyOptions }
	SubResourceUpdateOptions struct {
		UpdateOptions
		// SubResourceBody is sent instead of the object.
		SubResourceBody Object
	}
	SubResourcePatchOptions struct {
		PatchOptions
		// SubResourceBody is the object to compute the patch from, instead of the main object.
		SubResourceBody Object
	}

	// SubResourceUpdateAndPatchOption is the result type of WithSubResourceBody.
	SubResourceUpdateAndPatchOption = WriteOption
)

// ApplyToWrite implements [WriteOption].
func (o *SubResourceUpdateOptions) ApplyToWrite(to *WriteOptions) {
	o.UpdateOptions.ApplyToWrite(to)
	if o.SubResourceBody != nil {
		to.SubResourceBody = o.SubResourceBody
	}
}

// ApplyOptions adds options, and returns o.
func (o *SubResourceUpdateOptions) ApplyOptions(opts []SubResourceUpdateOption) *SubResourceUpdateOptions {
	o.SubResourceBody = applySubResource(&o.UpdateOptions, o.SubResourceBody, opts)
	return o
}

// ApplyToWrite implements [WriteOption].
func (o *SubResourcePatchOptions) ApplyToWrite(to *WriteOptions) {
	o.PatchOptions.ApplyToWrite(to)
	if o.SubResourceBody != nil {
		to.SubResourceBody = o.SubResourceBody
	}
}

// ApplyOptions adds options, and returns o.
func (o *SubResourcePatchOptions) ApplyOptions(opts []SubResourcePatchOption) *SubResourcePatchOptions {
	o.SubResourceBody = applySubResource(&o.PatchOptions, o.SubResourceBody, opts)
	return o
}

// applySubResource adds options, and returns the body, which is not in to afterwards.
func applySubResource(to *WriteOptions, body Object, opts []WriteOption) Object {
	to.SubResourceBody = body
	to.ApplyOptions(opts)
	body, to.SubResourceBody = to.SubResourceBody, nil
	return body
}
