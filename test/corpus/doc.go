// Package corpus holds questions to a Kubernetes API server and the answers which kube-apiserver gave.
//
// The questions are scripts in testdata, one subject a file, each a sequence of named cases. The answers beside them
// were recorded by test/oracle and are never written by hand. Run puts the questions to any server and compares.
// Where Kapok answers otherwise on purpose, or not yet, docs/differences.md says why; a case listed there must differ, and
// of the cases listed by a pattern some.
//
// # The language
//
// Scripts are cockroachdb/datadriven files. A step is a command with its arguments, its input below, then ---- and the
// output.
//
//	case NAME                    begins a case; what follows belongs to it
//	http [ARGS]                  sends the request in the input: a line "METHOD PATH?QUERY", header lines, a blank
//	                             line, the body; prints status, headers and the normalised body
//	crd                          creates the CustomResourceDefinition in the input and waits until it is served
//	watch as=NAME                like http, but keeps the stream open, and prints only how it began
//	events NAME count=N|end      prints the next N events of a stream, or all to its end
//	wait-crd NAME                waits until a definition is established and its objects can be listed
//	wait-gone PATH               waits until PATH answers 404
//	wait-for PATH TEXT           waits until the answer to a GET of PATH contains TEXT
//	hook NAME                    sets the answer of an admission webhook: {NAME.url} is where it is, {NAME.ca} its authority.
//	                             The input is YAML: response, whose allowed is true unless it says otherwise; patch, a JSON patch to go
//	                             into it; apiVersion and kind of the review; or code and body, to answer with no review
//	asked NAME [show=]           prints the reviews that a webhook was asked since its answer was set or this was printed
//	configured                   waits until the configurations of webhooks count which were written before
//	unconfigure                  removes the configurations of webhooks that the script has made
//	compact                      makes the server forget the history before now (skips the case if it cannot)
//
// Arguments of http, crd, watch and events:
//
//	as=NAME           keeps the answer, for {NAME.path} below
//	show=(.a.b, .c)   prints only these fields of the body; in .items.*.b the star is every item,
//	                  in .items.name=x.b the item of that name; ~ is a dot within a key;
//	                  show=none prints no body, show=raw its bytes as they came
//	headers=(A, B)    prints these headers too, also when they are absent
//	keep-headers=(A)  keeps these headers with the answer, as {NAME.header-A}
//	managed           prints metadata.managedFields, which is left out otherwise
//	body=protobuf     sends the YAML of the input as protobuf; body=quoted sends the Go string literal in the input
//	anonymous         sends no credentials
//	unordered         sorts the causes of a Status: kube-apiserver finds them in the order of a Go map
//	unordered-warnings   sorts the Warning headers likewise
//	until=CODE        repeats the request until the server answers CODE
//
// In the input {ns} is a namespace made for the file. {NAME.path.to.field} is a field of the answer kept as NAME, where
// rv, uid and continue stand for metadata.resourceVersion, metadata.uid and metadata.continue. {"text"*N} is text N
// times. A body that does not say its Content-Type is JSON if it begins with { or [, else YAML.
//
// # Normalisation
//
// What differs from run to run becomes a placeholder, and within a case equal values become equal placeholders: <rv1>,
// <uid1>, <time>, <continue>, <list-rv1> for the resourceVersion of a collection, and so on; package-internal type
// normalizer has the list. ResourceVersions and UIDs written in the input stay what they are. JSON is printed with sorted keys.
// Protobuf is decoded and printed as JSON, YAML likewise.
//
// Steps run one after another. Each open stream has a goroutine that reads it and ends when the stream is closed, which
// the end of the file does.
package corpus
