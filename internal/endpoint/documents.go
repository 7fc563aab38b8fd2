package endpoint

import "sync"

// documents caches discovery documents of content that does not change. The zero value is empty.
type documents struct {
	byKey sync.Map // documentKey -> *document
}

type documentKey struct {
	name     string
	encoding encoding
}

type document struct {
	bytes []byte
	etag  string // of aggregated ones
}

// get returns a document, which make encodes on first use; YAML is converted from JSON.
func (d *documents) get(name string, e encoding, make func(encoding) ([]byte, error)) (*document, error) {
	return d.tagged(name, e, func(e encoding) (*document, error) {
		encoded, err := make(e)
		return &document{bytes: encoded}, err
	})
}

// tagged is get for documents that have an ETag.
func (d *documents) tagged(name string, e encoding, make func(encoding) (*document, error)) (*document, error) {
	if e == asYAML {
		e = asJSON
	}
	key := documentKey{name, e}
	if known, ok := d.byKey.Load(key); ok {
		return known.(*document), nil
	}
	doc, err := make(e)
	if err != nil {
		return nil, err
	}
	kept, _ := d.byKey.LoadOrStore(key, doc)
	return kept.(*document), nil
}
