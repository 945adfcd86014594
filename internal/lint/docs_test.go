package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinch-robotics/pinch/internal/testpeer"
)

// sources yields every Go file of ours that is no test, parsed with comments.
func sources(t *testing.T, visit func(rel string, fset *token.FileSet, f *ast.File)) {
	t.Helper()
	root := testpeer.Root(t)
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if path != root && (strings.HasPrefix(name, ".") || name == "build" || name == "testdata" || name == "demo-out") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.ParseComments)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		visit(rel, fset, f)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// Every exported name has a doc comment: shapes, units, frames and errors are nowhere else.
func TestExportedNamesAreDocumented(t *testing.T) {
	sources(t, func(rel string, fset *token.FileSet, f *ast.File) {
		for _, decl := range f.Decls {
			switch d := decl.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && receiverExported(d) && d.Doc == nil {
					t.Errorf("%s:%d: %s has no doc comment", rel, fset.Position(d.Pos()).Line, d.Name.Name)
				}
			case *ast.GenDecl:
				undocumented(d, func(name string, at token.Pos) {
					t.Errorf("%s:%d: %s has no doc comment", rel, fset.Position(at).Line, name)
				})
			}
		}
	})
}

// receiverExported tells whether a function is one of a package's own or a method of an exported type; methods of hidden types
// implement interfaces, which carry the words.
func receiverExported(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// undocumented reports exported constants, variables and types without a comment of their own, on their line, or, for constants
// and variables, on their group.
func undocumented(d *ast.GenDecl, report func(string, token.Pos)) {
	for _, spec := range d.Specs {
		switch s := spec.(type) {
		case *ast.TypeSpec:
			if s.Name.IsExported() && d.Doc == nil && s.Doc == nil {
				report(s.Name.Name, s.Pos())
			}
		case *ast.ValueSpec:
			for _, n := range s.Names {
				if n.IsExported() && d.Doc == nil && s.Doc == nil && s.Comment == nil {
					report(n.Name, n.Pos())
				}
			}
		}
	}
}

// Every package says what it is, once.
func TestPackagesHaveAComment(t *testing.T) {
	seen := map[string]bool{}
	sources(t, func(rel string, _ *token.FileSet, f *ast.File) {
		dir := filepath.Dir(rel)
		seen[dir] = seen[dir] || f.Doc != nil
	})
	for dir, documented := range seen {
		if !documented {
			t.Errorf("package %s has no comment", dir)
		}
	}
}

// maxLines keeps files small enough to be read in one sitting.
const maxLines = 600

func TestFilesAreShort(t *testing.T) {
	sources(t, func(rel string, fset *token.FileSet, f *ast.File) {
		if n := fset.File(f.Pos()).LineCount(); n > maxLines && !strings.HasPrefix(filepath.Base(rel), "gen_") {
			t.Errorf("%s has %d lines, more than %d: split it by what it tells", rel, n, maxLines)
		}
	})
}
