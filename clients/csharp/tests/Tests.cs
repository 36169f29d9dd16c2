using System;
using System.Linq;
using System.Reflection;

namespace StraitFs
{
    /// <summary>A method without arguments that throws if its name isn't true.</summary>
    [AttributeUsage(AttributeTargets.Method)]
    internal sealed class TestAttribute : Attribute { }

    /// <summary>Runs the tests of this client alone. They are compiled with the library's sources.</summary>
    internal static class Tests
    {
        private static int Main()
        {
            var failed = 0;
            var tests = typeof(Tests).Assembly.GetTypes().SelectMany(type => type.GetMethods(BindingFlags.Static | BindingFlags.NonPublic))
                .Where(method => method.GetCustomAttribute<TestAttribute>() != null).ToList();
            foreach (var test in tests)
            {
                try
                {
                    test.Invoke(null, null);
                }
                catch (TargetInvocationException failure)
                {
                    failed++;
                    Console.WriteLine("failed: " + test.Name + ": " + failure.InnerException);
                }
            }
            Console.WriteLine(tests.Count - failed + " tests passed, " + failed + " failed");
            return failed;
        }

        internal static void Equal(object expected, object found)
        {
            if (!Equals(expected, found)) throw new Exception("expected " + expected + ", found " + found);
        }

        /// <summary>The message of the error, which is of this kind.</summary>
        internal static string Fails(ErrorKind kind, Action action)
        {
            try
            {
                action();
            }
            catch (Exception failure) when (failure is IStraitFailure)
            {
                if (((IStraitFailure)failure).Kind == kind) return failure.Message;
                throw;
            }
            throw new Exception("no error " + kind);
        }

        internal static void Contains(string part, string text)
        {
            if (!text.Contains(part)) throw new Exception("\"" + text + "\" doesn't contain \"" + part + "\"");
        }
    }
}
