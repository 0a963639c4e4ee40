"""torch_repr.py: records what PyTorch prints for a few tensors: python torch_repr.py > tests/unit/repr_cases.h"""
import torch
torch.manual_seed(0)
cases=[("f32",[2,3],[1,2,3,4,5,6]),("f32",[2,3],[0.1,-2.5,3.25,4,5,6]),("f32",[3],[1e-5,1,2]),("f32",[3],[1e9,1,2]),("f32",[4],[float('nan'),float('inf'),-1,0]),
("f32",[],[3.5]),("i64",[2,2],[1,-20,3,4]),("i32",[2],[1,2]),("bool",[3],[1,0,1]),("f64",[2],[0.5,0.25]),("f32",[0],[]),("f32",[2,0],[]),("i64",[0],[]),("f32",[2,2,2],[1,2,3,4,5,6,7,8.5]),
("f16",[2],[0.5,2]),("f32",[30],[i*0.5 for i in range(30)]),("i64",[1001],list(range(1001))),("f32",[40,30],[i*0.25 for i in range(1200)]),("f32",[2],[0,0]),("f32",[3],[-0.0,1000,1]),("f64",[1],[1/3]), ("f64", [8],[1/3]*8)]
D={"f32":torch.float32,"f64":torch.float64,"f16":torch.float16,"i64":torch.int64,"i32":torch.int32,"bool":torch.bool}
def cstr(s): return '"'+s.replace('\\','\\\\').replace('"','\\"').replace('\n','\\n"\n     "')+'"'
print("/* repr_cases.h: what PyTorch prints (recorded by tests/oracle/torch_repr.py). */")
print("static const ReprCase repr_cases[] = {")
for d,shape,vals in cases:
    t=torch.tensor(vals,dtype=torch.float64).reshape(shape).to(D[d])
    n=len(vals)
    if n>40:
        step=vals[1]-vals[0]; v="{0}"; 
    else:
        step=0; v="{"+", ".join("NAN" if x!=x else "INFINITY" if x==float('inf') else repr(float(x)) for x in vals)+"}" if n else "{0}"
    print(f"    {{DT_{d}, {len(shape)}, {{{', '.join(map(str,shape)) or 0}}}, {v}, {step},\n     {cstr(repr(t))}}},")
print("};")
