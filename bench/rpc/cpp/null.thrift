// A procedure that takes bytes and returns nothing.
namespace cpp bench

service Null {
  void call(1: binary argument)
}
