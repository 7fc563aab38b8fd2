// Package documents compares Kapok with the tutorials on custom resources: it has a row for each of
// their sentences, with its number in the list of sentences, and a check over HTTP.
//
// The tutorials are older than today's clients. Where these expect something else, the row notes
// and checks that. A row that does not hold gives the reason, and checks the actual behaviour.
// Scripts of test/kubectl, which also has the manifests, cover sentences about kubectl; the row
// names the script.
package documents
