// Package corpus has requests to a Kubernetes API server, and the responses of kube-apiserver.
//
// The requests are scripts in testdata, one subject in each file, which is a sequence of named
// cases. The responses in them were recorded by test/oracle and are never written by hand. Run
// sends the requests to any server and compares. Where Kapok differs on purpose, or does not
// support something yet, docs/differences.md gives the reason; a case listed there must differ, and
// of the cases that a pattern matches at least one.
//
// # The language
//
// Scripts are cockroachdb/datadriven files. A step is a command with its arguments, its input
// below, then ---- and the output.
//
//	case NAME                    begins a case, which has the steps that follow
//	http [ARGS]                  sends the request in the input: a line "METHOD PATH?QUERY", header lines, a blank
//	                             line, the body; prints status, headers and the normalised body
//	crd                          creates the CustomResourceDefinition in the input and waits until it is served
//	watch as=NAME                like http, but keeps the stream open, and prints only its first line and headers
//	events NAME count=N|end      prints the next N events of a stream, or all to its end
//	wait-crd NAME                waits until a definition is established and its objects can be listed
//	wait-gone PATH               waits until PATH returns 404
//	wait-for PATH TEXT           waits until the response to a GET of PATH contains TEXT
//	hook NAME                    sets the response of an admission webhook: {NAME.url} is its URL, {NAME.ca} its authority.
//	                             The input is YAML: response, whose allowed is true by default; patch, a JSON patch for it;
//	                             apiVersion and kind of the review; or code and body, for a response without a review
//	asked NAME [show=]           prints the reviews sent to a webhook since its response was set or this was last printed
//	configured                   waits until earlier writes of webhook configurations are in effect
//	unconfigure                  deletes the webhook configurations that the script has created
//	compact                      makes the server drop its history (skips the case if it cannot)
//
// Arguments of http, crd, watch and events:
//
//	as=NAME           keeps the response, for {NAME.path} below
//	show=(.a.b, .c)   prints only these fields of the body; in .items.*.b the star is every item,
//	                  in .items.name=x.b the item of that name; ~ is a dot within a key;
//	                  show=none prints no body, show=raw its bytes unchanged
//	headers=(A, B)    prints these headers too, even if they are absent
//	keep-headers=(A)  keeps these headers with the response, as {NAME.header-A}
//	managed           prints metadata.managedFields, which are omitted by default
//	body=protobuf     sends the YAML of the input as protobuf; body=quoted sends the Go string literal in the input
//	anonymous         sends no credentials
//	unordered         sorts the causes of a Status: kube-apiserver returns them in the order of a Go map
//	unordered-warnings   sorts the Warning headers, for the same reason
//	until=CODE        repeats the request until the server returns CODE
//
// In the input {ns} is a namespace created for the file. {NAME.path.to.field} is a field of the
// response kept as NAME, where rv, uid and continue stand for metadata.resourceVersion,
// metadata.uid and metadata.continue. {"text"*N} is text N times. A body without a Content-Type
// header is JSON if it begins with { or [, else YAML.
//
// # Normalisation
//
// Values that differ between runs become placeholders, and within a case equal values become equal
// placeholders: <rv1>, <uid1>, <time>, <continue>, <list-rv1> for the resourceVersion of a
// collection, and so on; the type normalizer has the list. ResourceVersions and UIDs written in the
// input are not replaced. JSON is printed with sorted keys. Protobuf and YAML are decoded and
// printed as JSON.
//
// Steps run one after another. Each open stream has a goroutine that reads it and ends when the
// stream is closed, at the latest at the end of the file.
package corpus
