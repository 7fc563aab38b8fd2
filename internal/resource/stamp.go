package resource

// Stamp identifies the schema and the version in which a resource is stored. An object with this Schema is served as it is
// stored: it is for those who write objects that are known to be normalised.
func Stamp(v *Version) uint64 { return stamp(v) }
