// Package kind defines the row of the table of built-in kinds. A [Kind] declares what is special
// about a kind; a [Row] becomes a definition once the conversions and defaults of all kinds are
// known. The package imports no group of kinds.
package kind
