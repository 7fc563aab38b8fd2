package kind

import "github.com/kapok-dev/kapok/internal/resource"

// ClientMetadata are the paths of the metadata that clients write. For many kinds, writes to the
// status change none of it.
var ClientMetadata = []string{"metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences"}

// DropUnlessSet removes a field of a disabled feature unless the old object has it.
func DropUnlessSet(obj, old resource.Tree, path ...string) {
	if Get(old, path...) == nil {
		Drop(obj, path...)
	}
}

// MetadataOfStatus are the paths of the metadata that writes to the status do not change, for kinds
// that let them change none.
var MetadataOfStatus = []string{
	"metadata.labels", "metadata.annotations", "metadata.finalizers", "metadata.ownerReferences", "metadata.deletionTimestamp",
}
