module {{name}}

go 1.25
