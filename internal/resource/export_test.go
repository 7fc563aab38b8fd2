package resource

import "context"

// Derived returns what a patch reads, and what it makes of that.
func (s *Store) Derived(ctx context.Context, r *Request, p Patch) (old, obj Tree, err error) {
	next, err := s.patcher(ctx, r, p)
	if err != nil {
		return nil, nil, err
	}
	w := write{store: s, request: r, change: change{next: next}}
	err = w.take(ctx, (*write).read, (*write).derive)
	return w.old, w.obj, err
}
