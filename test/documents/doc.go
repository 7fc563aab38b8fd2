// Package documents holds Kapok to what the tutorials of custom resources say: a table with a row for each of their
// sentences, by the number under which the list of those sentences has it, and what shows over HTTP that it is so.
//
// The tutorials are older than the clients of today. Where these expect something else the row says so, and shows that.
// A row that does not hold says why, and shows what is there instead. What takes a kubectl is shown by the scripts of
// test/kubectl, which also has the manifests; the row names the script.
package documents
