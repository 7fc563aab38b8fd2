// Package convert converts objects between the versions of their kind: from a version to a hub, and
// from the hub to another version.
//
//	v1alpha1 -> hub -> v1
//
// With a hub, n versions need n pairs of functions instead of one for each of the n*(n-1)
// directions. The hub is a Go type that can hold everything that any version can express: an
// internal type, or the newest version.
//
//	c, err := convert.New(scheme,
//		convert.Spoke(toHub, fromHub), // func(*v1alpha1.At, *hub.At) error, func(*hub.At, *v1alpha1.At) error
//		convert.Spoke[hub.At, v1.At](nil, nil),
//	)
//	...
//	out, err := c.To(obj, schema.GroupVersion{Group: "cnat.example.com", Version: "v1"})
//
// # Fields and functions
//
// Fields with the same Go name are converted without code, at any depth: structs by field, slices
// and maps by element, strings and numbers also if only the name of the type differs. A function is
// called after that and converts the rest; it is nil if there is no rest. A field without a
// counterpart and without a function that could handle it is an error of [New], so that no data is
// lost silently. Two rules apply within objects: [Func] is called wherever one type is converted to
// another, and [Ignore] leaves the target unchanged.
//
// # Guarantees
//
//   - The result shares no memory with its source, and the source is not changed, provided that
//     functions change only the object that they fill in.
//   - Every conversion goes through the hub, even from a version to itself. The result does not
//     depend on the path.
//   - Types and the priority of versions are those of the [runtime.Scheme]; nothing is registered
//     twice. Without a target, objects are converted to the preferred version of the group: see
//     [Converter.Preferred].
//   - Lists are converted item by item. A type without spokes belongs to the versions for which the
//     scheme has it, and is copied, as are types that the scheme calls unversioned.
//   - Defaults are not set: they are part of the meaning of a version, and are set by the decoder
//     before the conversion.
//
// A Converter implements [runtime.ObjectConvertor], and works with the codecs of apimachinery. It
// is immutable, safe for concurrent use, and starts no goroutine.
package convert
