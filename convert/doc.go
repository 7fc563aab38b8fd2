// Package convert converts objects between the versions of their kind: from the version in hand to a hub, and from the
// hub to the version that is asked for.
//
//	v1alpha1 -> hub -> v1
//
// With a hub n versions need n pairs of functions, not one for each of the n*(n-1) directions. The hub is a Go type with
// room for everything that any version can say: a type of its own that no client ever sees, or simply the newest version.
//
//	c, err := convert.New(scheme,
//		convert.Spoke(toHub, fromHub), // func(*v1alpha1.At, *hub.At) error, func(*hub.At, *v1alpha1.At) error
//		convert.Spoke[hub.At, v1.At](nil, nil),
//	)
//	...
//	out, err := c.To(obj, schema.GroupVersion{Group: "cnat.example.com", Version: "v1"})
//
// # What names say, and what functions say
//
// Fields with the same Go name convert by themselves, however deep: structs field by field, slices and maps element by
// element, strings and numbers where only the name of the type differs. A function is called after that and says the
// rest; where nothing is left to say it is nil. Whatever has no counterpart on the other side and no function that could
// care for it is an error of [New], not data lost in silence. Rules for what lies within an object are [Func], which runs
// wherever one type must become the other, and [Ignore], which leaves the target as it is.
//
// # What it promises
//
//   - The result shares no memory with what it was made of, and that is not changed, as long as functions keep to it, too:
//     they may change the object they fill in, and only that.
//   - Every conversion goes through the hub, also that of a version to itself. So the outcome does not depend on the way.
//   - Types and the priority of versions are those of the [runtime.Scheme], nothing is registered twice. Without a target
//     it is the preferred version of the kind's group, see [Converter.Preferred].
//   - Lists are converted item by item. A type without spokes is of the versions for which the scheme has it, and is
//     copied; so are types that the scheme calls unversioned.
//   - Defaults are not filled in: that is what a version means, and it is done before, by who decodes it.
//
// A Converter is a [runtime.ObjectConvertor], and so fits the codecs of apimachinery. It is immutable, any number of
// goroutines may use it, and it starts none.
package convert
