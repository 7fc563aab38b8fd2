// Package types holds generated code while gen runs; see there.
package types
